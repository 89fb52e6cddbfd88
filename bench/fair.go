package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	quickEndpoints = 99
	hang           = 15 * time.Second // how long the slow endpoint's receiver thinks, which is delivery.timeout too
	fairTick       = 10 * time.Millisecond
	fairWarmUp     = 2 * time.Second
)

func (b *bench) measureFair(ctx context.Context) ([]measurement, error) {
	if len(b.w.quick) == 0 {
		quick, err := b.w.newEndpoints(ctx, quickEndpoints, "/timed")
		if err != nil {
			return nil, err
		}
		b.w.quick = quick
	}
	without, err := b.w.quickOnes(ctx, b.fair, b.fairRate)
	if err != nil {
		return nil, fmt.Errorf("without the slow one: %w", err)
	}
	// Made anew for each run: what is remembered of the last one's time-outs should not help.
	slow, err := b.w.newEndpoints(ctx, 1, fmt.Sprintf("/after/%d", hang.Milliseconds()))
	if err != nil {
		return nil, err
	}
	if _, err := b.w.fill(ctx, filling{endpoints: slow, n: b.fairDue, payload: b.w.payload}); err != nil {
		return nil, err
	}
	with, err := b.w.quickOnes(ctx, b.fair, b.fairRate)
	if err != nil {
		return nil, fmt.Errorf("beside the slow one: %w", err)
	}
	return []measurement{
		{name: "  99 quick endpoints by themselves: p99 from due to received", got: without.P99, unit: "ms"},
		{name: "  99 quick endpoints beside one that hangs: p99", got: with.P99, unit: "ms"},
		{name: "99 quick endpoints beside one that hangs / by themselves, p99", got: with.P99 / without.P99, unit: "×", want: atMost(1.5)},
		{name: "  99 quick endpoints beside one that hangs: the longest", got: with.Most, unit: "ms"},
	}, nil
}

// quickOnes makes deliveries due to the quick endpoints at a steady rate, as whoever accepts events does, in a commit each
// 10 ms, and gives how old they are when they arrive. Whatever else is due is delivered as well, and in the end thrown away.
func (w *world) quickOnes(ctx context.Context, long time.Duration, rate int) (tally, error) {
	if err := w.receiver.forget(ctx); err != nil {
		return tally{}, err
	}
	stop := w.startDispatcher()
	defer stop()
	payload := slices.Clone(w.payload)
	begun := time.Now()
	from, until := begun.Add(fairWarmUp), begun.Add(fairWarmUp+long)
	made, watched := 0, 0
	for tick := 1; ; tick++ {
		due := begun.Add(time.Duration(tick) * fairTick)
		if !due.Before(until) {
			break
		}
		time.Sleep(time.Until(due))
		stamp(payload, 0, due)
		n := rate*tick*int(fairTick/time.Millisecond)/1000 - made
		b := &pgx.Batch{}
		news := w.queueEvents(b, filling{endpoints: w.quick, payload: payload}, made, n)
		if err := w.db.SendBatch(ctx, b).Close(); err != nil {
			return tally{}, err
		}
		made += n
		if !due.Before(from) {
			watched += n
		}
		(*w.accepted.Load())(news)
	}
	got, err := w.awaitDue(ctx, from, until, watched)
	if err != nil {
		return got, err
	}
	stop()
	return got, w.clear(ctx)
}

// awaitDue waits until all n that were due between two moments have been received: one that is late for long must not be
// missing from the figure.
func (w *world) awaitDue(ctx context.Context, from, until time.Time, n int) (tally, error) {
	end := time.Now().Add(drainPatience)
	for {
		got, err := w.receiver.between(ctx, from, until)
		if err != nil || got.Due >= n {
			return got, err
		}
		if time.Now().After(end) {
			return got, fmt.Errorf("%d of %d deliveries to quick endpoints arrived", got.Due, n)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
