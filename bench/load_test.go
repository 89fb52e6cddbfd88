package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// The hand-made client says what net/http's server takes for a request, reads whatever it answers, and takes no answer but
// 202 for one.
func TestPoster(t *testing.T) {
	t.Parallel()
	const before = `{"payload":`
	body := append(append([]byte(before), newPayload(payloadSize)...), '}')
	answers := map[string]http.HandlerFunc{
		"/length": func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(http.StatusAccepted)
			_, _ = rw.Write([]byte("{}"))
		},
		"/nothing": func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusAccepted) },
		"/chunks": func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(http.StatusAccepted)
			for range 3 {
				_, _ = io.WriteString(rw, strings.Repeat("x", 5000))
				_ = http.NewResponseController(rw).Flush()
			}
		},
		"/no": func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "no", http.StatusServiceUnavailable) },
	}
	at := time.Now().Add(-time.Hour)
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var got struct {
			Payload struct {
				At int64 `json:"at"`
			} `json:"payload"`
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil || got.Payload.At != at.UnixNano() {
			t.Errorf("%s: it got %v, %v", r.URL.Path, got, err)
		}
		if r.Header.Get("Authorization") != "Bearer k" || r.ContentLength != int64(len(body)) {
			t.Errorf("%s: it got %v", r.URL.Path, r.Header)
		}
		answers[r.URL.Path](rw, r)
	}))
	t.Cleanup(s.Close)
	for path := range answers {
		o := order{Addr: strings.TrimPrefix(s.URL, "http://"), Key: "k", Body: body, Payload: len(before)}
		p, err := newPoster(o, path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.conn.Close() })
		for range 2 { // the second finds the connection where the first answer ended
			if err := p.post(at); (err != nil) != (path == "/no") {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

func TestPayload(t *testing.T) {
	t.Parallel()
	p := newPayload(payloadSize)
	if len(p) != payloadSize || !json.Valid(p) {
		t.Errorf("%d bytes: %s", len(p), p)
	}
	for _, path := range []string{"/timed", scheduledPath, "/hook"} {
		r := newTaker()
		stamp(p, 0, time.Now().Add(-time.Second))
		rw := httptest.NewRecorder()
		r.routes().ServeHTTP(rw, httptest.NewRequest(http.MethodPost, path, strings.NewReader(string(p))))
		if n := len(r.samples[path]); rw.Code != http.StatusOK || r.count.Load() != 1 || (n == 1) != (path != "/hook") {
			t.Errorf("%s: %d, %d counted, %d timed", path, rw.Code, r.count.Load(), n)
		}
		for _, s := range r.samples[path] {
			if took := time.Duration(s.took); took < time.Second || took > time.Minute {
				t.Errorf("it took %v", took)
			}
		}
	}
}

func TestReadStat(t *testing.T) {
	t.Parallel()
	s, err := readStat(os.Getpid())
	if err != nil || s.parent != os.Getppid() || s.own < 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if now, most, err := memory(os.Getpid()); err != nil || now < 1 || most < now/2 {
		t.Errorf("%v MiB, %v at most, %v", now, most, err)
	}
}
