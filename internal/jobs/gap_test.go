package jobs_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// dispatch sends what is due until the test ends.
func (s *shop) dispatch() {
	s.Helper()
	queue, err := pg.OpenQueue(s.Context(), pgtest.URL(s.T), 2)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(queue.Close)
	ports, err := egress.ParsePorts("1-65535")
	if err != nil {
		s.Fatal(err)
	}
	client := egress.New(egress.Config{ConnectTimeout: time.Second, Policy: egress.Policy{
		AllowHTTP: true, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowPorts: ports,
	}})
	d := dispatcher.New(dispatcher.Config{
		RetrySchedule: dispatcher.DefaultSchedule, Timeout: 5 * time.Second, Lease: time.Minute, MaxInFlight: 10,
		MaxInFlightPerEndpoint: 5, ResponseBodyLimit: 64, AlertAfterFailures: 5, UserAgent: "Postrider/test", Grace: 5 * time.Second,
	}, dispatcher.Deps{
		DB: s.db, Queue: queue, IDs: s.ids, Now: s.now, Doer: client, Store: s.store, Desk: s.desk, Metrics: dispatcher.Unmeasured(),
		Log: zerolog.Nop(), WallTime: time.Now,
	})
	s.runs(func(ctx context.Context) error {
		defer client.CloseIdleConnections()
		return d.Run(ctx)
	})
	s.wake = d.Wake
}

// runs has something run until the test ends.
func (s *shop) runs(run func(context.Context) error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(s.Context()))
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	s.Cleanup(func() {
		stop()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			s.Error(err)
		}
	})
}

// The gap of an endpoint that was made too late, on a real socket: the same ids and bytes as everybody got, signed with its own
// secret, marked as a replay, and no word of it in the endpoint's health.
func TestTheGapIsReplayed(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	type got struct {
		header http.Header
		body   string
	}
	posts := make(chan got, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		posts <- got{r.Header, string(body)}
	}))
	t.Cleanup(receiver.Close)
	ten := s.tenant()
	missed := s.events(ten, "order.paid", 3)
	ep := s.endpoint(ten, subscriptions.NewEndpoint{URL: receiver.URL})
	s.exec(`UPDATE endpoints SET consecutive_failures = 4, failing_since = $1, last_error = 'it was away'`, noon)
	secrets, err := s.store.Secret(t.Context(), ten, id.Endpoint.Format(ep))
	if err != nil {
		t.Fatal(err)
	}
	s.dispatch()
	s.runs(s.jobs.Run)
	j := s.create(window(ten, ep, []string{"missing"}, nil))
	if j.Matched != 3 {
		t.Errorf("%d are meant", j.Matched)
	}
	var events []string
	for range missed {
		var p got
		select {
		case p = <-posts:
		case <-time.After(30 * time.Second):
			t.Fatal("nothing comes")
		}
		events = append(events, p.header.Get(signer.HeaderID))
		if p.header.Get(signer.HeaderReplay) != "true" || p.header.Get(signer.HeaderAttempt) != "1" {
			t.Errorf("got %v", p.header)
		}
		if err := signer.Verify(signer.Standard, "", secrets[0].Secret.Reveal(), p.header.Get, []byte(p.body), time.Now(), time.Minute); err != nil {
			t.Errorf("the signature: %v", err)
		}
	}
	slices.Sort(events)
	for i, evt := range missed {
		if events[i] != id.Event.Format(evt) {
			t.Errorf("got %v, want %v", events, missed)
		}
	}
	for deadline := time.Now().Add(30 * time.Second); s.count(`SELECT count(*) FROM deliveries_finished WHERE state = 'succeeded'`) < 3; {
		if time.Now().After(deadline) {
			t.Fatal("not recorded")
		}
	}
	if n := s.count(`SELECT count(*) FROM endpoints WHERE consecutive_failures = 4 AND failing_since = $1 AND last_error = 'it was away'`, noon); n != 1 {
		t.Error("its health has changed")
	}
	if n := s.count(`SELECT count(*) FROM attempts WHERE replay`); n != 3 {
		t.Errorf("%d attempts say that they are replays", n)
	}
}
