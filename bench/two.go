package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// twoInFlight and twoAnswer make the processes the limit: each has so many slots, and each is taken for so long.
	// That is 1,600/s a process, far from what the machine can do.
	twoInFlight = 32
	twoAnswer   = 20 * time.Millisecond
)

func (b *bench) measureTwo(ctx context.Context) ([]measurement, error) {
	one, _, err := b.w.shared(ctx, 1, b.two)
	if err != nil {
		return nil, fmt.Errorf("one process: %w", err)
	}
	two, got, err := b.w.shared(ctx, 2, b.two)
	if err != nil {
		return nil, fmt.Errorf("two processes: %w", err)
	}
	least := min(got.Senders[userAgentOf(2)], got.Senders[userAgentOf(3)])
	return []measurement{
		{name: "  two dispatchers / one, a receiver that answers after 20 ms", got: two / one, unit: "×"},
		{name: "two dispatchers: delivered twice", got: float64(got.Twice), unit: "", want: atMost(0)},
		{name: "two dispatchers: what the lesser did of all", got: float64(least) / float64(b.two), unit: "×", want: atLeast(0.25)},
	}, nil
}

// shared has so many processes drain n deliveries together, and gives the rate.
func (w *world) shared(ctx context.Context, processes, n int) (float64, tally, error) {
	endpoints, err := w.slowEndpoints(ctx, (n+perEndpoint-1)/perEndpoint)
	if err != nil {
		return 0, tally{}, err
	}
	if err := w.receiver.forget(ctx); err != nil {
		return 0, tally{}, err
	}
	first, err := w.fill(ctx, filling{endpoints: endpoints, n: n, payload: w.payload})
	if err != nil {
		return 0, tally{}, err
	}
	before, err := w.receiver.number(ctx, "/count")
	if err != nil {
		return 0, tally{}, err
	}
	all, stop, err := w.startDispatchers(ctx, processes, twoInFlight)
	defer stop()
	if err != nil {
		return 0, tally{}, err
	}
	begun := time.Now()
	if err := begin(all); err != nil {
		return 0, tally{}, err
	}
	if err := w.receiver.await(ctx, before+int64(n), drainPatience); err != nil {
		return 0, tally{}, err
	}
	took := time.Since(begun)
	if err := w.awaitEnded(ctx, first, n); err != nil {
		return 0, tally{}, err
	}
	if err := w.succeeded(ctx, first, n); err != nil {
		return 0, tally{}, err
	}
	got, err := w.receiver.between(ctx, time.Time{}, time.Time{})
	if err != nil {
		return 0, tally{}, err
	}
	stop()
	return float64(n) / took.Seconds(), got, w.clear(ctx)
}

// slowEndpoints makes sure that there are n endpoints whose receiver answers after twoAnswer, and gives them.
func (w *world) slowEndpoints(ctx context.Context, n int) ([]endpoint, error) {
	if missing := n - len(w.slow); missing > 0 {
		more, err := w.newEndpoints(ctx, missing, fmt.Sprintf("/after/%d", twoAnswer.Milliseconds()))
		if err != nil {
			return nil, err
		}
		w.slow = append(w.slow, more...)
	}
	return slices.Clone(w.slow[:n]), nil
}
