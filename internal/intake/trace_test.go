package intake_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/traceparent"
)

func parsed(t *testing.T, text string) traceparent.Context {
	t.Helper()
	c, ok := traceparent.Parse(text)
	if !ok {
		t.Fatal(text)
	}
	return c
}

// The caller's trace is kept with the event, also within a transaction of others, and nothing where there is none. Events with and
// without share a transaction here.
func TestCallersTraceIsKept(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	tenant := d.tenant(t)
	c := parsed(t, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	traced := traceparent.With(t.Context(), c)
	var all sync.WaitGroup
	for n := range 40 {
		ctx := t.Context()
		if n%2 == 0 {
			ctx = traced
		}
		all.Go(func() {
			if _, _, err := d.Accept(ctx, tenant, "", []intake.Event{order(n), order(n)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	err := pg.InTx(traced, d.db, func(tx pgx.Tx) error {
		_, _, err := d.AcceptIn(traced, tx, []intake.Call{{Tenant: tenant, Events: []intake.Event{order(1)}}}, d.now())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := d.count(t, `SELECT count(*) FROM events WHERE trace = $1`, c.Bytes()); n != 41 {
		t.Errorf("%d events have the trace, want 41", n)
	}
	if n := d.count(t, `SELECT count(*) FROM events WHERE trace IS NULL`); n != 40 {
		t.Errorf("%d events have none, want 40", n)
	}
}

// tracer gives each call a span of its own and notes what it hears.
type tracer struct {
	mu     sync.Mutex
	begun  []intake.Call
	ended  []tracedCall
	stored [][]traceparent.Context
}

type tracedCall struct {
	t        *tracer
	context  traceparent.Context
	receipts []intake.Receipt
	replayed bool
	err      error
}

func (r *tracer) Enqueue(_ context.Context, c intake.Call) intake.EnqueueSpan {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = append(r.begun, c)
	n := byte(len(r.begun))
	return &tracedCall{t: r, context: traceparent.Context{Trace: [16]byte{n}, Span: [8]byte{n}}}
}

func (r *tracer) Store(ctx context.Context, calls []traceparent.Context) (context.Context, func(error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored = append(r.stored, calls)
	return ctx, func(error) {}
}

func (c *tracedCall) Context() traceparent.Context { return c.context }

func (c *tracedCall) Finish(rs []intake.Receipt, replayed bool, err error) {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	c.receipts, c.replayed, c.err = rs, replayed, err
	c.t.ended = append(c.t.ended, *c)
}

// While something is traced, the call's own span is kept in place of the caller's; what repeats an event keeps the first one's; and
// what is refused before anything is done has no span.
func TestOwnSpanIsKept(t *testing.T) {
	t.Parallel()
	r := &tracer{}
	d := newDesk(t)
	traced := intake.New(intake.Deps{DB: d.db, IDs: d.ids, Now: d.now, Tracer: r})
	t.Cleanup(func() { _ = traced.Close(context.Background()) })
	tenant := d.tenant(t)
	ctx := traceparent.With(t.Context(), parsed(t, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))
	for range 2 {
		if _, _, err := traced.Accept(ctx, tenant, "key", []intake.Event{order(1)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := traced.Accept(ctx, tenant, "", []intake.Event{{Type: "not a type"}}); err == nil {
		t.Error("a bad type was taken")
	}
	if len(r.begun) != 2 || len(r.ended) != 2 || r.ended[0].replayed || !r.ended[1].replayed || r.ended[0].receipts[0].ID != r.ended[1].receipts[0].ID {
		t.Errorf("begun %d, ended %+v", len(r.begun), r.ended)
	}
	if n := d.count(t, `SELECT count(*) FROM events WHERE trace = $1`, r.ended[0].context.Bytes()); n != 1 {
		t.Errorf("%d events have the first call's span", n)
	}
	if len(r.stored) != 2 || r.stored[0][0] != r.ended[0].context {
		t.Errorf("stored for %v", r.stored)
	}
}
