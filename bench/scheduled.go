package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/intake"
)

const (
	// scheduledLoad is the ordinary traffic beside deliveries that are due later, as a share of what a drain takes in this run.
	// The producers and the receiver share the machine's cores with it.
	scheduledLoad = 0.5
	// scheduledAhead is how long before the first of them is due they are all accepted.
	scheduledAhead = 5 * time.Second
	scheduledPath  = "/later"
	// futureDays is when those are due that are only in the way.
	futureDays = 3 * 24 * time.Hour
)

// measureScheduled looks at how late deliveries with a deliver_at arrive under load, and whether many that are due in some days
// slow a drain.
func (b *bench) measureScheduled(ctx context.Context) ([]measurement, error) {
	alone, err := b.w.drainAndClear(ctx, b.drain)
	if err != nil {
		return nil, err
	}
	rate := scheduledLoad * alone.rate
	got, load, err := b.w.scheduled(ctx, b.scheduled, pace{Clients: clients, Long: b.scheduledFor, Rate: rate})
	if err != nil {
		return nil, err
	}
	beside, err := b.besideFuture(ctx)
	if err != nil {
		return nil, err
	}
	name := func(what string) string {
		return fmt.Sprintf("deliver_at: %s of %d beside %.0f %% of a drain", what, got.Due, scheduledLoad*100)
	}
	return []measurement{
		{name: "  ordinary events accepted / paced", got: load.Rate / rate, unit: "×"},
		{name: "  " + name("p50"), got: got.P50, unit: "ms"},
		{name: "  " + name("p99"), got: got.P99, unit: "ms"},
		{name: name("the latest"), got: got.Most, unit: "ms", want: atMost(1000)},
		{
			name: fmt.Sprintf("drain beside %s due in three days / alone", short(b.scheduledFuture)), got: beside.rate / alone.rate, unit: "×",
			want: atLeast(0.85),
		},
	}, nil
}

// scheduled accepts n events whose times are spread over the load that goes on meanwhile, and gives how late they arrive.
func (w *world) scheduled(ctx context.Context, n int, p pace) (tally, loaded, error) {
	none := func(err error) (tally, loaded, error) { return tally{}, loaded{}, err }
	if err := w.receiver.forget(ctx); err != nil {
		return none(err)
	}
	if w.later == nil {
		made, err := w.newEndpoints(ctx, len(w.tenants), scheduledPath)
		if err != nil {
			return none(err)
		}
		w.later = made
	}
	before := w.recorded.attempts.Load()
	stop := w.startDispatcher()
	defer stop()
	from := time.Now().Add(scheduledAhead)
	if err := w.acceptLater(ctx, n, from, p.Long); err != nil {
		return none(err)
	}
	if left := time.Until(from); left > 0 {
		time.Sleep(left)
	} else {
		return none(fmt.Errorf("to accept %d events took longer than %s", n, scheduledAhead))
	}
	load, err := w.loadAPI(ctx, w.enqueueOrder(1, p))
	if err != nil {
		return none(err)
	}
	var sent int64
	if err := w.db.QueryRow(ctx, `SELECT sum(cardinality(delivery_ids)) FROM events`).Scan(&sent); err != nil {
		return none(err)
	}
	if err := w.awaitRecorded(ctx, before+sent, time.Minute); err != nil {
		return none(err)
	}
	stop()
	got, err := w.receiver.betweenOf(ctx, scheduledPath, from, from.Add(p.Long))
	if err == nil && got.Due != n {
		err = fmt.Errorf("%d of %d deliveries with a time of their own arrived", got.Due, n)
	}
	if err != nil {
		return none(err)
	}
	return got, load, w.clear(ctx)
}

// acceptLater accepts events of all tenants, each for its own moment.
func (w *world) acceptLater(ctx context.Context, n int, from time.Time, long time.Duration) error {
	per := (n + len(w.later) - 1) / len(w.later)
	for t, e := range w.later {
		var events []intake.Event
		for i := t * per; i < min((t+1)*per, n); i++ {
			// Neighbours in time are of different tenants.
			at := from.Add(time.Duration(i%per*len(w.later)+t) * long / time.Duration(per*len(w.later)))
			payload := bytes.Clone(w.payload)
			stamp(payload, 0, at)
			events = append(events, intake.Event{Type: "bench.later", Payload: payload, DeliverAt: &at, EndpointIDs: []string{endpointID(e)}})
		}
		if len(events) == 0 {
			continue
		}
		if _, _, err := w.intake.AcceptBatch(ctx, e.tenant, "", events); err != nil {
			return err
		}
	}
	return nil
}

// besideFuture drains beside many deliveries that are due in some days.
func (b *bench) besideFuture(ctx context.Context) (throughput, error) {
	endpoints, err := b.w.drainEndpoints(ctx, (b.drain+perEndpoint-1)/perEndpoint)
	if err != nil {
		return throughput{}, err
	}
	due := b.w.clock.Now().Add(futureDays)
	if _, err := b.w.fill(ctx, filling{endpoints: endpoints, n: b.scheduledFuture, payload: b.w.payload, due: due}); err != nil {
		return throughput{}, err
	}
	return b.w.drainAndClear(ctx, b.drain)
}
