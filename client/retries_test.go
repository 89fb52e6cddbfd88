package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/client"
)

const receipt = `{"id":"evt_1","type":"order.paid","status":"queued","deliveries":1,"created_at":"2026-11-30T09:00:00Z"}`

var paid = client.Event{Tenant: "demo", Type: "order.paid", Payload: []byte(`{"order":7}`)}

// What may pass is tried again, with one key and the whole body; what does not is not.
func TestWhatIsTriedAgain(t *testing.T) {
	t.Parallel()
	again := map[int]bool{408: true, 425: true, 429: true}
	for status := 300; status <= 599; status++ {
		if status >= 500 {
			again[status] = true
		}
		var keys []string
		url := answering(t, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil || string(body) != string(paid.Payload) || r.ContentLength != int64(len(body)) {
				t.Errorf("%q %v", body, err)
			}
			keys = append(keys, r.Header.Get("Idempotency-Key"))
			if len(keys) < 3 {
				w.WriteHeader(status)
				return
			}
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, receipt)
		})
		_, err := connect(t, url).Enqueue(t.Context(), paid)
		switch {
		case again[status] && (err != nil || len(keys) != 3 || keys[0] == "" || keys[1] != keys[0] || keys[2] != keys[0]):
			t.Errorf("%d: %v %v", status, keys, err)
		case !again[status] && (len(keys) != 1 || refusal(t, err).Status != status):
			t.Errorf("%d: %v %v", status, keys, err)
		}
	}
}

func TestTwoCallsHaveTwoKeys(t *testing.T) {
	t.Parallel()
	keys := map[string]bool{}
	url := answering(t, func(w http.ResponseWriter, r *http.Request) {
		keys[r.Header.Get("Idempotency-Key")] = true
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, receipt)
	})
	c, own := connect(t, url), paid
	own.IdempotencyKey = "my own"
	for _, e := range []client.Event{paid, paid, own, own} {
		if _, err := c.Enqueue(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if len(keys) != 3 || !keys["my own"] || keys[""] {
		t.Errorf("%v", keys)
	}
}

func TestGivesUp(t *testing.T) {
	t.Parallel()
	tries := 0
	url := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		tries++
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"title":"Service Unavailable","status":503,"detail":"the store is away"}`)
	})
	_, err := connect(t, url, client.WithRetries(2)).Enqueue(t.Context(), paid)
	const want = "enqueue order.paid: gave up after 3 tries: the store is away (503 service unavailable)"
	if err == nil || err.Error() != want || refusal(t, err).Detail != "the store is away" || tries != 3 {
		t.Errorf("%d tries: %v", tries, err)
	}
	tries = 0
	_, err = connect(t, url, client.WithRetries(0)).Enqueue(t.Context(), paid)
	if err == nil || !strings.Contains(err.Error(), "gave up after 1 try:") || tries != 1 {
		t.Errorf("%d tries: %v", tries, err)
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	e := paid
	e.UID = "a-uid-that-is-nobody's-to-read"
	_, err = connect(t, "http://"+addr, client.WithRetries(1)).Enqueue(t.Context(), e)
	if err == nil || !strings.Contains(err.Error(), "gave up after 2 tries: no answer:") {
		t.Errorf("%v", err)
	}
}

// scripted is the outer world with a clock of its own: it answers as told and notes when it was asked.
type scripted struct {
	mu     sync.Mutex
	asked  []time.Time
	answer func(n int, r *http.Request) (*http.Response, error)
}

func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.asked = append(s.asked, time.Now())
	n := len(s.asked)
	s.mu.Unlock()
	return s.answer(n, r)
}

func reply(status int, body string, headers ...string) *http.Response {
	h := http.Header{}
	for n := 0; n < len(headers); n += 2 {
		h.Set(headers[n], headers[n+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

func scriptedClient(t *testing.T, s *scripted, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New("http://postrider.test", "prk_1", append([]client.Option{client.WithHTTPClient(&http.Client{Transport: s})}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The waits double, and what Retry-After says makes them longer.
func TestWaits(t *testing.T) {
	t.Parallel()
	second := time.Second
	for name, tc := range map[string]struct {
		header      func() string
		least, most time.Duration
	}{
		"none":        {func() string { return "" }, 100 * time.Millisecond, 200 * time.Millisecond},
		"seconds":     {func() string { return "30" }, 30 * second, 30 * second},
		"a date":      {func() string { return time.Now().Add(40 * second).UTC().Format(http.TimeFormat) }, 39 * second, 40 * second},
		"nothing new": {func() string { return "0" }, 100 * time.Millisecond, 200 * time.Millisecond},
		"garbage":     {func() string { return "soon" }, 100 * time.Millisecond, 200 * time.Millisecond},
		"negative":    {func() string { return "-5" }, 100 * time.Millisecond, 200 * time.Millisecond},
		"past":        {func() string { return "Fri, 31 Dec 1999 23:59:59 GMT" }, 100 * time.Millisecond, 200 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &scripted{answer: func(n int, _ *http.Request) (*http.Response, error) {
				if n == 1 {
					return reply(429, "", "Retry-After", tc.header()), nil
				}
				return reply(202, receipt), nil
			}}
			if _, err := scriptedClient(t, s).Enqueue(t.Context(), paid); err != nil {
				t.Fatal(name, err)
			}
			if waited := s.asked[1].Sub(s.asked[0]); waited < tc.least || waited > tc.most {
				t.Errorf("%s: waited %s", name, waited)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(int, *http.Request) (*http.Response, error) { return nil, errors.New("the wire is cut") }}
		_, err := scriptedClient(t, s, client.WithBackoff(second, 4*second), client.WithRetries(5)).Enqueue(t.Context(), paid)
		if err == nil || !strings.HasSuffix(err.Error(), "gave up after 6 tries: no answer: the wire is cut") {
			t.Error(err)
		}
		for n, most := range []time.Duration{second, 2 * second, 4 * second, 4 * second, 4 * second} {
			if waited := s.asked[n+1].Sub(s.asked[n]); waited < most/2 || waited > most {
				t.Errorf("wait %d was %s", n+1, waited)
			}
		}
	})
}

// A server that wants to be left alone for long is: the caller hears of it at once.
func TestLongRetryAfter(t *testing.T) {
	t.Parallel()
	s := &scripted{answer: func(int, *http.Request) (*http.Response, error) { return reply(503, "", "Retry-After", "3600"), nil }}
	_, err := scriptedClient(t, s).Enqueue(t.Context(), paid)
	if err == nil || !strings.Contains(err.Error(), "gave up after 1 try, as the server asks to come back in 1h0m0s") || len(s.asked) != 1 {
		t.Errorf("%v, %d tries", err, len(s.asked))
	}
}

// The context ends a call while it waits and while it asks. The error says how far it was and what went wrong before.
func TestContextEndsACall(t *testing.T) {
	t.Parallel()
	hang := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	for name, tc := range map[string]struct {
		answer func(n int, r *http.Request) (*http.Response, error)
		want   string
		status int
	}{
		"waiting": {func(int, *http.Request) (*http.Response, error) {
			return reply(503, "", "Retry-After", "60"), nil
		}, "stopped after 1 try: context deadline exceeded; before that: status 503", 503},
		"asking": {func(n int, r *http.Request) (*http.Response, error) {
			if n < 3 {
				return reply(500, ""), nil
			}
			return hang(r)
		}, "stopped after 3 tries: context deadline exceeded; before that: status 500", 500},
		"asking for the first time": {func(_ int, r *http.Request) (*http.Response, error) {
			return hang(r)
		}, "stopped after 1 try: context deadline exceeded", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			begun := time.Now()
			_, err := scriptedClient(t, &scripted{answer: tc.answer}).Enqueue(ctx, paid)
			if err == nil || err.Error() != "enqueue order.paid: "+tc.want || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			if tc.status > 0 && refusal(t, err).Status != tc.status {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(begun); took != 20*time.Second {
				t.Errorf("%s: took %s", name, took)
			}
		})
	}
}

// A try that hangs is given up, and the next one is made.
func TestTryTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(_ int, r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}}
		_, err := scriptedClient(t, s, client.WithTimeout(5*time.Second), client.WithRetries(1)).Enqueue(t.Context(), paid)
		if err == nil || !strings.HasSuffix(err.Error(), "gave up after 2 tries: no answer: it took longer than a try may") {
			t.Error(err)
		}
	})
}
