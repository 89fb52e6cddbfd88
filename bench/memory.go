package main

import (
	"context"
	"fmt"
	"time"
)

const (
	largePayload = 1 << 20
	largeAtOnce  = 100
	largeAnswer  = 3 * time.Second // how long the receiver of large payloads thinks
)

func (b *bench) measureMemory(ctx context.Context) ([]measurement, error) {
	w := b.w
	endpoints, err := w.drainEndpoints(ctx, (b.memoryDue+perEndpoint-1)/perEndpoint)
	if err != nil {
		return nil, err
	}
	due, err := w.peak(ctx, filling{endpoints: endpoints, n: b.memoryDue, payload: w.payload})
	if err != nil {
		return nil, fmt.Errorf("many due: %w", err)
	}
	if err := w.receiver.forget(ctx); err != nil {
		return nil, err
	}
	endpoints, err = w.newEndpoints(ctx, largeAtOnce, fmt.Sprintf("/after/%d", largeAnswer.Milliseconds()))
	if err != nil {
		return nil, err
	}
	large, err := w.peak(ctx, filling{endpoints: endpoints, n: largeAtOnce, payload: newPayload(largePayload)})
	if err != nil {
		return nil, fmt.Errorf("large ones: %w", err)
	}
	got, err := w.receiver.between(ctx, time.Time{}, time.Time{})
	if err != nil {
		return nil, err
	}
	return []measurement{
		{name: "  memory of an idle dispatcher's process", got: due.idle, unit: "MiB"},
		{name: fmt.Sprintf("memory over idle, draining %d due of 1 KiB", b.memoryDue), got: due.most - due.idle, unit: "MiB", want: atMost(150)},
		{name: "memory over idle, 100 of 1 MiB in flight", got: large.most - large.idle, unit: "MiB", want: atMost(150)},
		{name: "  100 of 1 MiB: in flight at once, as the receiver saw", got: float64(got.AtOnce), unit: "", want: atLeast(largeAtOnce)},
	}, nil
}

// settle is how long a process is left alone before it counts as idle.
const settle = 3 * time.Second

type use struct{ idle, most float64 } // MiB resident

// peak has a process of its own drain a backlog that comes due all at once, and gives what memory that took.
func (w *world) peak(ctx context.Context, f filling) (use, error) {
	all, stop, err := w.startDispatchers(ctx, 1, 0)
	defer stop()
	if err != nil {
		return use{}, err
	}
	if err := begin(all); err != nil {
		return use{}, err
	}
	time.Sleep(settle)
	idle, _, err := memory(all[0].pid())
	if err != nil {
		return use{}, err
	}
	before, err := w.receiver.number(ctx, "/count")
	if err != nil {
		return use{}, err
	}
	f.atOnce, f.stale = true, true
	first, err := w.fill(ctx, f)
	if err != nil {
		return use{}, err
	}
	if err := w.receiver.await(ctx, before+int64(f.n), drainPatience); err != nil {
		return use{}, err
	}
	if err := w.awaitEnded(ctx, first, f.n); err != nil {
		return use{}, err
	}
	_, most, err := memory(all[0].pid())
	if err != nil {
		return use{}, err
	}
	stop()
	return use{idle, most}, w.clear(ctx)
}

// awaitEnded waits until n deliveries made after that id have succeeded, whoever delivers them.
func (w *world) awaitEnded(ctx context.Context, first int64, n int) error {
	end := time.Now().Add(drainPatience)
	for {
		done, _, err := w.ended(ctx, first)
		if err != nil {
			return err
		}
		if done == n {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d deliveries succeeded in %s", done, n, drainPatience)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
