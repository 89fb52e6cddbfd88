package alert_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/alert"
)

// digestIsDue has a digest be due that tells of an outage, and gives who sends it. Of the senders that senderOf makes each is a process.
func digestIsDue(t *testing.T, urls ...string) (w *world, senderOf func() *alert.Sender) {
	t.Helper()
	w = newWorld(t, 2)
	senderOf = func() *alert.Sender {
		return w.senderWith(&logged{}, alert.SenderConfig{URLs: urls, Digest: "0 9 * * *"}, nil)
	}
	w.now = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	if err := senderOf().SendDigest(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.outage()
	w.now = w.now.Add(time.Hour)
	return w, senderOf
}

// Channels that hang, one after the other, would hold up all notices, and outlast the lease that keeps others from sending it again.
func TestADigestGoesToAllChannelsAtOnce(t *testing.T) {
	t.Parallel()
	const channels = 3
	var here atomic.Int32
	all := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if here.Add(1) == channels {
			close(all)
		}
		select {
		case <-all:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	var urls []string
	for _, path := range []string{"/a", "/b", "/c"} {
		urls = append(urls, "generic+"+server.URL+path)
	}
	w, senderOf := digestIsDue(t, urls...)
	if err := senderOf().SendDigest(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, "tries for the next one", w.one(`SELECT tries::text FROM alert_digest`), "0")
}

// What is on its way when the process is stopped gets there, and is not sent again by another one.
func TestADigestOutlivesAStop(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var got atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		got.Add(1)
		stop()
	}))
	t.Cleanup(server.Close)
	w, senderOf := digestIsDue(t, "generic+"+server.URL)
	for range 2 {
		if err := senderOf().SendDigest(ctx); err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		w.now, ctx = w.now.Add(2*time.Minute), t.Context()
	}
	if n := got.Load(); n != 1 {
		t.Errorf("sent %d times", n)
	}
}
