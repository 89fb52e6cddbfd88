package main

import (
	"context"
	"fmt"
	"time"
)

// paceOfRaw is the share of the raw rate at which the latency under load is looked at: half of what is wanted.
const (
	mixedOfRaw = 0.35
	paceOfRaw  = mixedOfRaw / 2
)

func (b *bench) measureMixed(ctx context.Context) ([]measurement, error) {
	raw, err := b.raw(ctx)
	if err != nil {
		return nil, err
	}
	flat, err := b.w.mixed(ctx, pace{Clients: clients, Long: b.mixed})
	if err != nil {
		return nil, fmt.Errorf("as fast as it goes: %w", err)
	}
	full, err := b.w.mixed(ctx, pace{Clients: clients, Long: b.mixed, Rate: mixedOfRaw * raw.rate})
	if err != nil {
		return nil, fmt.Errorf("at the rate that is wanted: %w", err)
	}
	half, err := b.w.mixed(ctx, pace{Clients: clients, Long: b.mixed, Rate: paceOfRaw * raw.rate})
	if err != nil {
		return nil, fmt.Errorf("at half of it: %w", err)
	}
	return []measurement{
		{name: "enqueue and drain at once: received meanwhile / raw POSTs", got: flat.received / raw.rate, unit: "×", want: atLeast(mixedOfRaw)},
		{name: "  at once: accepted meanwhile / raw POSTs", got: flat.accepted / raw.rate, unit: "×"},
		{name: "  at once: all of it until the last was recorded / raw POSTs", got: flat.whole / raw.rate, unit: "×"},
		{name: "  paced at 0.35 of raw POSTs: received / paced", got: full.received / (mixedOfRaw * raw.rate), unit: "×"},
		{name: "  paced at 0.35 of raw POSTs: p99 end to end", got: full.tally.P99, unit: "ms"},
		{name: "  paced at 0.175 of raw POSTs: p50 end to end", got: half.tally.P50, unit: "ms"},
		{name: "paced at 0.175 of raw POSTs: p99 end to end", got: half.tally.P99, unit: "ms", want: atMost(100)},
	}, nil
}

type mix struct {
	accepted, received float64 // a second, while the load went on
	whole              float64 // a second, from the load's start until the last was recorded
	tally              tally   // ages from the moment when a request was due to when its event was received
}

// mixed enqueues through the API while a dispatcher in the same process delivers, as `serve` does it.
func (w *world) mixed(ctx context.Context, p pace) (mix, error) {
	if err := w.receiver.forget(ctx); err != nil {
		return mix{}, err
	}
	first, before := w.ids.Next(), w.recorded.attempts.Load()
	stop := w.startDispatcher()
	defer stop()
	begun := time.Now()
	got, err := w.loadAPI(ctx, w.enqueueOrder(1, p))
	if err != nil {
		return mix{}, err
	}
	var sent int
	const count = `SELECT count(*) FROM events WHERE id > $1` // all that were accepted, those of the warm-up too
	if err := w.db.QueryRow(ctx, count, first).Scan(&sent); err != nil {
		return mix{}, err
	}
	if err := w.awaitRecorded(ctx, before+int64(sent), drainPatience); err != nil {
		return mix{}, err
	}
	whole := float64(sent) / time.Since(begun).Seconds()
	stop()
	m := mix{accepted: got.Rate, whole: whole}
	if m.tally, err = w.receiver.between(ctx, got.From, got.Until); err != nil {
		return mix{}, err
	}
	m.received = float64(m.tally.Received) / p.Long.Seconds()
	if err := w.succeeded(ctx, first, sent); err != nil {
		return mix{}, err
	}
	return m, w.clear(ctx)
}
