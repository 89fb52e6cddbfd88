// Package ingest takes messages out of a broker and enqueues them as events: `postrider ingest`.
//
// A message is acknowledged when Postrider has answered, which it does after the commit: what is lost on the way comes
// again, and the message's id is the event's uid, so that it makes no second event. What Postrider refuses for good is put
// where Options.Refused says, or ends the run: it neither vanishes nor is tried for ever.
//
// The package does not know how events are stored: it is a client of the HTTP API, as any producer, and may run anywhere.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/client"
)

// Sink takes events: a *client.Client. What it cannot take for now it has tried several times before it says so.
type Sink interface {
	Enqueue(ctx context.Context, e client.Event) (client.Receipt, error)
	EnqueueBatch(ctx context.Context, tenant string, events []client.Event) ([]client.Receipt, error)
}

// Source is a broker's queue.
type Source interface {
	// Fetch waits a while for a first message and gives what is there then, so many at most and in the queue's order. An error
	// means that the broker cannot be reached for now; none and no messages, that there were none.
	Fetch(ctx context.Context, most int) ([]*Message, error)
	// Extend tells the broker that these are still being worked on.
	Extend(open []*Message)
	// Empty reports whether there is nothing left that was not acknowledged, as far as the broker tells.
	Empty(ctx context.Context) bool
	// Close gives what was not acknowledged back to the broker.
	Close() error
}

// Message is what a broker has handed out and waits for an answer about.
type Message struct {
	Key         string            // its subject or routing key
	ID          string            // the producer's id of it; "": it has none
	Place       string            // what the broker calls it, the same each time it comes; "": the broker has no such thing
	ContentType string            // "": not said
	Type        string            // the type that the broker's protocol has a field for; "": not said
	Header      map[string]string // by lower-case names
	Body        []byte

	Ack    func() error                                   // it is stored
	Refuse func(ctx context.Context, reason string) error // keeps it where what was refused goes, and acknowledges it

	extend, back func() error // JetStream's: it is being worked on, and hand it out again at once
	answered     bool
}

// MaxBatch is how many messages may be worked on at once: what a call of the API takes.
const MaxBatch = 1000

// Options say how a run works.
type Options struct {
	Naming
	Batch      int  // messages at once, 1 to MaxBatch
	UntilEmpty bool // end when there was no message for a while
	Log        zerolog.Logger
	// Pause is what is waited before a broker or Postrider that cannot be reached is asked again, doubled each time up to
	// 30 times as much. Zero: a second.
	Pause time.Duration
}

// Total counts what a run came to.
type Total struct {
	Stored  int // messages whose event is stored, now or already when the message came again
	Refused int
}

// Run takes messages until ctx ends, and until there are none with UntilEmpty. Its error is what nothing but somebody can mend: a key that
// is refused, a message that is refused when there is nowhere to put it. All that was acknowledged is stored.
func Run(ctx context.Context, from Source, to Sink, o Options) (Total, error) {
	if o.Pause <= 0 {
		o.Pause = time.Second
	}
	r := &run{Options: o, from: from, to: to}
	for waits := r.pauses(); ctx.Err() == nil; {
		messages, err := from.Fetch(ctx, o.Batch)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			r.Log.Warn().Err(err).Msg("ingest.broker_unavailable")
			waits.wait(ctx)
		case len(messages) == 0:
			if o.UntilEmpty && from.Empty(ctx) {
				return r.total, nil
			}
		default:
			waits = r.pauses()
			if err := r.take(ctx, messages); err != nil {
				return r.total, err
			}
		}
	}
	return r.total, nil
}

type run struct {
	Options
	from  Source
	to    Sink
	total Total
}

// pauses grow while something is away.
type pauses struct{ next, most time.Duration }

func (r *run) pauses() pauses { return pauses{r.Pause, 30 * r.Pause} }

func (p *pauses) wait(ctx context.Context) {
	timer := time.NewTimer(p.next)
	defer timer.Stop()
	p.next = min(2*p.next, p.most)
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// extendEvery is below the time that brokers wait for an answer: a consumer of ours as ackWait says, RabbitMQ half an hour.
const extendEvery = 5 * time.Second

// take enqueues what a fetch brought, and returns when each of it is answered for, or the run is to end.
func (r *run) take(ctx context.Context, messages []*Message) error {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(extendEvery)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				r.from.Extend(messages) // those that are done as well, which brokers pass over
			}
		}
	}()
	err := r.enqueue(ctx, messages)
	close(stop)
	<-stopped
	return err
}

// refuse keeps a message apart.
func (r *run) refuse(ctx context.Context, m *Message, cause error) error {
	switch err := m.Refuse(ctx, cause.Error()); {
	case errors.Is(err, ErrBrokerAway):
		r.Log.Warn().Str("message", m.name()).Str("key", m.Key).Err(err).Msg("ingest.broker_unavailable") // it comes again
		return nil
	case err != nil:
		return fmt.Errorf("message %s (%s): %w; it was not acknowledged: %w", m.name(), m.Key, cause, err)
	}
	m.answered = true
	r.total.Refused++
	r.Log.Warn().Str("message", m.name()).Str("key", m.Key).Err(cause).Msg("ingest.refused")
	return nil
}

// ack tells the broker. One that it does not hear of comes again, and is then repeated.
func (r *run) ack(m *Message, receipt client.Receipt) {
	m.answered = true
	r.total.Stored++
	if err := m.Ack(); err != nil {
		r.Log.Warn().Str("message", m.name()).Str("event", receipt.ID).Err(err).Msg("ingest.not_acknowledged")
	}
}
