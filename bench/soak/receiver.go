package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// kind is a kind of receiver: its name is the path, the event type and the endpoint's uid.
type kind struct {
	name     string
	share    int            // how many of the events are for it
	endpoint map[string]any // what its endpoint has beside a URL
	grouped  bool           // its events have a group_key
	size     int            // bytes of a payload, more or less
	answer   func(r *receiver, n int64, rw http.ResponseWriter, req *http.Request) (status int)
}

// kinds are all receivers. n counts a receiver's requests from 1, so what fails now and then does so evenly, and a retry
// has another chance.
func kinds() []kind {
	return []kind{
		{name: "quick", share: 100, size: 1 << 10, answer: status(http.StatusOK)},
		{name: "slow", share: 5, size: 1 << 10, answer: func(_ *receiver, n int64, _ http.ResponseWriter, req *http.Request) int {
			wait(req, 500*time.Millisecond+time.Duration(n%10)*100*time.Millisecond)
			return http.StatusOK
		}},
		{name: "errors", share: 20, size: 1 << 10, answer: everyNth(3, status(http.StatusInternalServerError))},
		{name: "busy", share: 10, size: 1 << 10, answer: everyNth(20, func(_ *receiver, _ int64, rw http.ResponseWriter, _ *http.Request) int {
			rw.Header().Set("Retry-After", "1")
			return http.StatusTooManyRequests
		})},
		{name: "reset", share: 5, size: 1 << 10, answer: everyNth(2, reset)},
		{name: "hang", share: 1, size: 1 << 10, answer: everyNth(2, hang)},
		{name: "broken", share: 2, size: 1 << 10, answer: func(r *receiver, _ int64, _ http.ResponseWriter, _ *http.Request) int {
			if r.healthy.Load() {
				return http.StatusOK
			}
			return http.StatusBadGateway
		}},
		{name: "gone", share: 1, size: 1 << 10, answer: status(http.StatusGone)},
		{name: "large", share: 2, size: 256 << 10, answer: func(_ *receiver, _ int64, rw http.ResponseWriter, _ *http.Request) int {
			rw.WriteHeader(http.StatusOK)
			_, _ = rw.Write(bytes.Repeat([]byte("x"), 1<<20)) // far more than is kept
			return http.StatusOK
		}},
		{
			name: "ordered", share: 10, size: 1 << 10, grouped: true, endpoint: map[string]any{"ordering": "group"},
			answer: everyNth(50, status(http.StatusServiceUnavailable)),
		},
		{
			name: "limited", share: 10, size: 1 << 10, answer: status(http.StatusOK),
			endpoint: map[string]any{"rate_limit": map[string]any{"limit": 50, "per": "1s"}},
		},
	}
}

type answerer = func(*receiver, int64, http.ResponseWriter, *http.Request) int

func status(code int) answerer {
	return func(*receiver, int64, http.ResponseWriter, *http.Request) int { return code }
}

// everyNth gives the bad answer each n-th time while the receivers are not healthy, and 200 else.
func everyNth(n int64, bad answerer) answerer {
	return func(r *receiver, i int64, rw http.ResponseWriter, req *http.Request) int {
		if i%n != 0 || r.healthy.Load() {
			return http.StatusOK
		}
		return bad(r, i, rw, req)
	}
}

func wait(req *http.Request, d time.Duration) {
	select {
	case <-time.After(d):
	case <-req.Context().Done():
	}
}

// answered says that the answer was given in another way, or none at all.
const answered = 0

// reset breaks the connection off, with a RST.
func reset(_ *receiver, _ int64, rw http.ResponseWriter, _ *http.Request) int {
	conn, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return http.StatusInternalServerError
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
	return answered
}

// hang says nothing until the sender gives up.
func hang(_ *receiver, _ int64, _ http.ResponseWriter, req *http.Request) int {
	<-req.Context().Done()
	return http.StatusInternalServerError
}

// receiver is all of them, on one port.
type receiver struct {
	url     string
	server  *http.Server
	healthy atomic.Bool

	mu   sync.Mutex
	took map[string]int // how often each delivery was answered with a 2xx
}

func startReceiver() (*receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{url: "http://" + l.Addr().String(), took: map[string]int{}}
	mux := http.NewServeMux()
	for _, k := range kinds() {
		var count atomic.Int64
		mux.HandleFunc("POST /"+k.name, func(rw http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			code := k.answer(r, count.Add(1), rw, req)
			if code/100 == 2 {
				r.mu.Lock()
				r.took[req.Header.Get("postrider-delivery-id")]++
				r.mu.Unlock()
			}
			if code != answered && code != http.StatusOK {
				rw.WriteHeader(code)
			}
		})
	}
	r.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

// recover ends every outage.
func (r *receiver) recover() { r.healthy.Store(true) }

func (r *receiver) close() { _ = r.server.Close() }

// accepted gives how many deliveries were answered with a 2xx, and how many of them more than once.
func (r *receiver) accepted() (n, twice int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, times := range r.took {
		if times > 1 {
			twice++
		}
	}
	return len(r.took), twice
}

// payload is JSON of about that size.
func payload(size int, n int64) []byte {
	p := append([]byte(`{"n":`), strconv.FormatInt(n, 10)...)
	p = append(append(p, `,"pad":"`...), bytes.Repeat([]byte("x"), size)...)
	return append(p, `"}`...)
}
