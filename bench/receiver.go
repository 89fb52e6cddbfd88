package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// taker is what the receiver's process keeps. It answers 200 to everything:
//
//	POST /after/{ms}  after so long; it looks out for deliveries that come twice, and for who sends them
//	POST /timed, /later notes how old the moment at the body's beginning is (see payload)
//	POST /…           counts
//	GET /count        how many requests came in all
//	GET /await?n=     answers when that many have
//	GET /last         when the first byte of the last came that was not for /after/, in nanoseconds since 1970
//	GET /tally        says what else it has noted (see tally); of ?of= (/timed if not said) what is between ?from= and ?until=
//	POST /forget      begins anew, but for the count
type taker struct {
	count, last    atomic.Int64
	slow, mostSlow atomic.Int64 // requests waiting at /after/

	mu      sync.Mutex
	samples map[string][]sample // by path
	seen    map[string]bool     // deliveries, at /after/
	twice   int
	senders map[string]int // by User-Agent, at /after/
}

// sample is a body's own moment, in nanoseconds since 1970, and how long after it the body came.
type sample struct{ at, took int64 }

// tally is what a receiver says of itself.
type tally struct {
	Received int            `json:"received"` // at /timed, between from and until
	Due      int            `json:"due"`      // how many of /timed have a moment between from and until
	P50      float64        `json:"p50"`      // ms, of those
	P99      float64        `json:"p99"`
	Most     float64        `json:"most"`
	AtOnce   int64          `json:"at_once"` // the most that waited at /after/
	Twice    int            `json:"twice"`
	Senders  map[string]int `json:"senders"`
}

// serveReceiver is the receiver's process: it says where it listens and ends with its parent.
func serveReceiver() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	server := &http.Server{Handler: newTaker().routes(), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

func newTaker() *taker {
	return &taker{samples: map[string][]sample{}, seen: map[string]bool{}, senders: map[string]int{}}
}

func (t *taker) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(_ http.ResponseWriter, r *http.Request) {
		t.last.Store(time.Now().UnixNano())
		_, _ = io.Copy(io.Discard, r.Body)
		t.count.Add(1)
	})
	mux.HandleFunc("POST /timed", t.timed)
	mux.HandleFunc("POST "+scheduledPath, t.timed)
	mux.HandleFunc("POST /after/{ms}", t.after)
	mux.HandleFunc("GET /count", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, t.count.Load()) })
	mux.HandleFunc("GET /await", t.await)
	mux.HandleFunc("GET /last", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, t.last.Load()) })
	mux.HandleFunc("GET /tally", t.tell)
	mux.HandleFunc("POST /forget", func(http.ResponseWriter, *http.Request) { t.forget() })
	return mux
}

func (t *taker) timed(_ http.ResponseWriter, r *http.Request) {
	now := time.Now().UnixNano()
	t.last.Store(now)
	var head [payloadHead]byte
	if _, err := io.ReadFull(r.Body, head[:]); err == nil {
		if at, err := strconv.ParseInt(string(bytes.TrimPrefix(head[:], []byte(payloadStart))), 10, 64); err == nil {
			t.mu.Lock()
			t.samples[r.URL.Path] = append(t.samples[r.URL.Path], sample{at, now - at})
			t.mu.Unlock()
		}
	}
	_, _ = io.Copy(io.Discard, r.Body)
	t.count.Add(1)
}

func (t *taker) after(_ http.ResponseWriter, r *http.Request) {
	waiting := t.slow.Add(1)
	defer t.slow.Add(-1)
	for most := t.mostSlow.Load(); waiting > most && !t.mostSlow.CompareAndSwap(most, waiting); {
		most = t.mostSlow.Load()
	}
	_, _ = io.Copy(io.Discard, r.Body)
	delivery := r.Header.Get("postrider-delivery-id")
	t.mu.Lock()
	if t.seen[delivery] {
		t.twice++
	}
	t.seen[delivery] = true
	t.senders[r.UserAgent()]++
	t.mu.Unlock()
	t.count.Add(1)
	ms, _ := strconv.Atoi(r.PathValue("ms"))
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
	case <-r.Context().Done(): // whoever sent it has given up
	}
}

// await looks each millisecond: it is asked once and so disturbs what is measured less than being asked each time.
func (t *taker) await(_ http.ResponseWriter, r *http.Request) {
	n, _ := strconv.ParseInt(r.FormValue("n"), 10, 64)
	for t.count.Load() < n && r.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
}

func (t *taker) tell(rw http.ResponseWriter, r *http.Request) {
	from, _ := strconv.ParseInt(r.FormValue("from"), 10, 64)
	until, _ := strconv.ParseInt(r.FormValue("until"), 10, 64)
	t.mu.Lock()
	defer t.mu.Unlock()
	got := tally{AtOnce: t.mostSlow.Load(), Twice: t.twice, Senders: t.senders}
	var took []time.Duration
	of := r.FormValue("of")
	if of == "" {
		of = "/timed"
	}
	for _, s := range t.samples[of] {
		if came := s.at + s.took; came >= from && came < until {
			got.Received++
		}
		if s.at >= from && s.at < until {
			took = append(took, time.Duration(s.took))
		}
	}
	if got.Due = len(took); got.Due > 0 {
		got.P50, got.P99, got.Most = quantile(took, 0.5), quantile(took, 0.99), quantile(took, 1)
	}
	_ = json.NewEncoder(rw).Encode(got)
}

func (t *taker) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.samples, t.seen, t.twice, t.senders = map[string][]sample{}, map[string]bool{}, 0, map[string]int{}
	t.mostSlow.Store(0)
}

// quantile gives the q-quantile in milliseconds, and sorts d.
func quantile(d []time.Duration, q float64) float64 {
	slices.Sort(d)
	return float64(d[min(int(float64(len(d))*q), len(d)-1)]) / float64(time.Millisecond)
}

// receiver is the process from the outside.
type receiver struct {
	*child
	url string
}

func startReceiver(ctx context.Context) (*receiver, error) {
	c, err := startChild(ctx, roleReceiver)
	if err != nil {
		return nil, err
	}
	addr, err := c.line()
	return &receiver{child: c, url: "http://" + addr}, err
}

// ask sends a request and gives the answer's body.
func (r *receiver) ask(ctx context.Context, method, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// number asks for one of its numbers.
func (r *receiver) number(ctx context.Context, path string) (int64, error) {
	b, err := r.ask(ctx, http.MethodGet, path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(b), 10, 64)
}

// await waits until it has had n requests in all.
func (r *receiver) await(ctx context.Context, n int64, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := r.ask(ctx, http.MethodGet, fmt.Sprintf("/await?n=%d", n)); err != nil {
		got, _ := r.number(context.WithoutCancel(ctx), "/count")
		return fmt.Errorf("%d of %d requests arrived: %w", got, n, err)
	}
	return nil
}

// forget begins anew.
func (r *receiver) forget(ctx context.Context) error {
	_, err := r.ask(ctx, http.MethodPost, "/forget")
	return err
}

// between asks for what was noted; the times bound what is said of /timed.
func (r *receiver) between(ctx context.Context, from, until time.Time) (got tally, err error) {
	return r.betweenOf(ctx, "/timed", from, until)
}

// betweenOf is between of another path.
func (r *receiver) betweenOf(ctx context.Context, path string, from, until time.Time) (got tally, err error) {
	b, err := r.ask(ctx, http.MethodGet, fmt.Sprintf("/tally?of=%s&from=%d&until=%d", path, from.UnixNano(), until.UnixNano()))
	if err != nil {
		return got, err
	}
	return got, json.Unmarshal(b, &got)
}
