package ingest_test

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/ingest"
)

// What cannot be read of a broker's URL is not shown: where a password ends is not known then.
func TestNoPasswordOfABrokerIsShown(t *testing.T) {
	t.Parallel()
	for _, rest := range []string{"user:s3cret%zz@127.0.0.1:1", "user:s3cret@127.0.0.1:port", "user:s3cret/@127.0.0.1:1", "user:s3cret@[::1", "user:%s3cret@h"} {
		_, nats := ingest.OpenNATS(t.Context(), ingest.NATS{URL: "nats://" + rest}, 1)
		_, amqp := ingest.OpenAMQP(t.Context(), ingest.AMQP{URL: "amqp://" + rest}, 1)
		for _, err := range []error{nats, amqp} {
			if err == nil || !strings.Contains(err.Error(), "its URL is none") || strings.Contains(err.Error(), "s3") {
				t.Errorf("%s: %v", rest, err)
			}
		}
	}
}
