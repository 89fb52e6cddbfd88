package dispatcher

import (
	"bytes"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// puller is a world with an endpoint that is fetched from.
type puller struct {
	*world
	p        *Pull
	endpoint id.ID
	secret   signer.Secret
}

func newPuller(t *testing.T) *puller {
	t.Helper()
	w := newWorld(t, func(*http.Request) (*http.Response, error) {
		t.Error("something was sent")
		return reply(200, nil, "")
	})
	p := &puller{world: w, p: w.pull()}
	p.endpoint, p.secret = w.pullEndpoint()
	return p
}

// pull makes what gives away, as each process that takes requests has one.
func (w *world) pull() *Pull {
	box, err := seal.New([][]byte{bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		w.Fatal(err)
	}
	return NewPull(Config{Lease: time.Minute, AlertAfterFailures: 5}, PullDeps{
		Deps: Deps{
			DB: w.db, Queue: w.queue, IDs: w.ids, Now: w.clock, Store: w.store, Metrics: noMetrics{},
			Log: zerolog.New(zerolog.NewTestWriter(w.T)), WallTime: time.Now,
		},
		Marks: Marks{box},
	})
}

func (w *world) pullEndpoint() (id.ID, signer.Secret) {
	w.Helper()
	e, secret, err := w.store.CreateEndpoint(w.Context(), w.tenant, subscriptions.NewEndpoint{Kind: subscriptions.Pull})
	if err != nil {
		w.Fatal(err)
	}
	return e.ID, secret
}

// poll gives what a poll brings at once.
func (p *puller) poll(limit int) []Pulled {
	p.Helper()
	got, err := p.p.Poll(p.Context(), p.endpoint, Ask{Limit: limit})
	if err != nil {
		p.Fatal(err)
	}
	return got
}

func (p *puller) ack(tokens ...string) []AckState {
	p.Helper()
	acked, err := p.p.Ack(p.Context(), p.endpoint, p.tenant.ID, tokens)
	if err != nil {
		p.Fatal(err)
	}
	var states []AckState
	for _, a := range acked {
		states = append(states, a.State)
	}
	return states
}

// owe makes n deliveries, each due a second after the one before.
func (p *puller) owe(n int) (deliveries []id.ID) {
	p.Helper()
	for range n {
		p.advance(time.Second)
		deliveries = append(deliveries, p.enqueuePull(p.endpoint, `{"n": 1.0}`))
	}
	return deliveries
}

func deliveriesOf(got []Pulled) (deliveries []id.ID) {
	for _, g := range got {
		deliveries = append(deliveries, g.Delivery)
	}
	return deliveries
}

func TestPollGivesTheOldestFirstEachToOne(t *testing.T) {
	t.Parallel()
	p := newPuller(t)
	owed := p.owe(5)
	first, second := p.poll(2), p.poll(10)
	if got := deliveriesOf(slices.Concat(first, second)); !slices.Equal(got, owed) {
		t.Errorf("polls gave %v, want %v", got, owed)
	}
	if more := p.poll(10); len(more) > 0 {
		t.Errorf("what is leased was given to another: %v", more)
	}
	for _, g := range first {
		if g.Attempt != 1 || g.ContentType != "application/json" || g.EventType != "order.paid" || string(g.Payload) != `{"n": 1.0}` ||
			!g.LeasedUntil.Equal(p.clock().Add(time.Minute)) {
			t.Errorf("it is %+v", g)
		}
	}
	if states := p.ack(first[0].Token, first[1].Token); !slices.Equal(states, []AckState{Acknowledged, Acknowledged}) {
		t.Errorf("acknowledged: %v", states)
	}
}
