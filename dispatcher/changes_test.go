package dispatcher

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/id"
)

// However many attempts meet a dead endpoint at once, the log says so once; each attempt has its own line with all ids.
func TestChangesOfEndpointsAreToldOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		want   []string
	}{
		"dead":       {http.StatusGone, []string{`"message":"endpoint.status_changed"`}},
		"overloaded": {http.StatusServiceUnavailable, []string{`"message":"breaker.opened"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const many = 12
			w := newWorld(t, always(c.status))
			var log bytes.Buffer
			w.d.log = zerolog.New(&log)
			e := w.endpoint()
			for range many {
				w.enqueue(e, "x")
			}
			w.round(w.d)
			for _, want := range append(c.want, `"endpoint":"`+id.Endpoint.Format(e)+`"`) {
				if !strings.Contains(log.String(), want) {
					t.Errorf("no %s in\n%s", want, log.String())
				}
			}
			for _, once := range c.want {
				if n := strings.Count(log.String(), once); n != 1 {
					t.Errorf("%s is told %d times", once, n)
				}
			}
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "delivery.attempted") {
					for _, of := range []string{`"tenant":"ten_`, `"event":"evt_`, `"delivery":"dlv_`, `"attempt_id":"att_`, `"outcome":`, `"status":`, `"took":`} {
						if !strings.Contains(line, of) {
							t.Errorf("no %s in %s", of, line)
						}
					}
				}
			}
		})
	}
}
