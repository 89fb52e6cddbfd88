package examples_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/apitest"
)

func produce(t *testing.T, url string, args ...string) (code int, said string) {
	t.Helper()
	env := map[string]string{"POSTRIDER_URL": url, "POSTRIDER_API_KEY": apitest.AdminKey}
	return run(t, env, "node", append([]string{"producer-node/produce.mjs"}, args...)...)
}

// The answers to the first tries get lost after the commit: there is one event all the same, also of the next start.
func TestNodeProducer(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	proxy := apitest.Cut(t, s.URL, 2)
	for range 2 {
		if code, said := produce(t, proxy.URL, "A-1001", "49.90"); code != 0 || !strings.HasPrefix(said, "evt_") {
			t.Fatal(code, said)
		}
	}
	if passed, events := proxy.Passed.Load(), s.Events(t); passed != 4 || events != 1 {
		t.Errorf("%d requests made %d events", passed, events)
	}
	var payload string
	if err := s.DB.QueryRow(t.Context(), `SELECT convert_from(payload, 'UTF8') FROM postrider.events`).Scan(&payload); err != nil {
		t.Fatal(err)
	}
	if payload != `{"order":"A-1001","amount":"49.90"}` {
		t.Error(payload)
	}
	code, said := produce(t, proxy.URL, "A-1001", "1.00") // the same uid with another content
	if code != 1 || !strings.Contains(said, "(422)") || s.Events(t) != 1 {
		t.Error(code, said)
	}
	if code, said = produce(t, proxy.URL); code != 2 || !strings.HasPrefix(said, "usage:") {
		t.Error(code, said)
	}
}

func TestNodeProducerTriesAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		statuses []int
		code     int
		said     string
	}{
		"what may pass":     {[]int{500, 429, 202}, 0, "evt_1 queued"},
		"a refusal":         {[]int{401}, 1, "order 7: no such key (401)"},
		"a redirect":        {[]int{307}, 1, "(307)"},
		"come back in hour": {[]int{503}, 1, "gave up after 1 tries"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys := map[string]int{}
			calls := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				keys[r.Header.Get("Idempotency-Key")]++
				status := tc.statuses[min(calls, len(tc.statuses)-1)]
				if calls++; status == 503 {
					w.Header().Set("Retry-After", "3600")
				}
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(status)
				fmt.Fprint(w, `{"id":"evt_1","status":"queued","deliveries":1,"detail":"no such key"}`)
			}))
			t.Cleanup(server.Close)
			code, said := produce(t, server.URL, "7", "1")
			if code != tc.code || !strings.Contains(said, tc.said) || calls != len(tc.statuses) || len(keys) != 1 || keys[""] > 0 {
				t.Errorf("%d %s: %d calls, keys %v", code, said, calls, keys)
			}
		})
	}
}
