package subscriptions

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/id"
)

// However much PEM endpoints have, what is remembered of it stays bounded, and is counted right.
func TestRememberedTLSIsBounded(t *testing.T) {
	t.Parallel()
	var c unsealedCache
	counted := func() (sum int) {
		for _, u := range c.by {
			sum += u.from.tls.size()
		}
		return sum
	}
	big := sealedParts{tls: sealedTLS{ca: strings.Repeat("x", 1<<20), certificate: strings.Repeat("y", 1<<19)}}
	for n := range int64(40) {
		for range 2 { // the second time in place of the first
			c.put(id.ID{N: n % 30}, unsealed{from: big})
		}
		if n%7 == 0 {
			c.forget(id.ID{N: n})
		}
		if c.tls != counted() || c.tls > maxUnsealedTLS {
			t.Fatalf("after %d it says %d bytes of %d", n, c.tls, counted())
		}
	}
	if u, there := c.get(id.ID{N: 39 % 30}, big); !there || len(u.from.tls.ca) != 1<<20 {
		t.Error("the newest is not remembered")
	}
}
