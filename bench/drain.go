package main

import (
	"context"
	"fmt"
	"time"
)

// perEndpoint is how many due deliveries an endpoint has in a drain.
const perEndpoint = 50

// drainPatience is how long a drain may take before it counts as stuck.
const drainPatience = 5 * time.Minute

func (b *bench) measureDrain(ctx context.Context) ([]measurement, error) {
	raw, err := b.raw(ctx)
	if err != nil {
		return nil, err
	}
	drain, err := b.w.drainAndClear(ctx, b.drain)
	if err != nil {
		return nil, err
	}
	return []measurement{
		{name: "  raw signed keep-alive POSTs", got: raw.rate, unit: "/s"},
		{name: "  raw: CPU of the client per 1,000", got: raw.cpu, unit: "s"},
		{name: "drain / raw POSTs", got: drain.rate / raw.rate, unit: "×", want: atLeast(0.65)},
		{name: "drain: CPU of Postrider / of the raw client", got: drain.cpu / raw.cpu, unit: "×", want: atMost(1.4)},
		{name: "drain: CPU of PostgreSQL per 1,000", got: drain.pgCPU, unit: "s", want: atMost(0.06)},
		{name: "drain: WAL per delivery", got: drain.wal, unit: "bytes", want: atMost(900)},
	}, nil
}

// drainAndClear makes n deliveries due, times how long a dispatcher takes until all are recorded, and empties the tables.
func (w *world) drainAndClear(ctx context.Context, n int) (throughput, error) {
	got, err := w.drain(ctx, n, false)
	if err != nil {
		return got, err
	}
	return got, w.clear(ctx)
}

// drain is drainAndClear without the clearing. With stale statistics PostgreSQL has not noticed yet that there is work.
func (w *world) drain(ctx context.Context, n int, stale bool) (throughput, error) {
	endpoints, err := w.drainEndpoints(ctx, (n+perEndpoint-1)/perEndpoint)
	if err != nil {
		return throughput{}, err
	}
	first, err := w.fill(ctx, filling{endpoints: endpoints, n: n, payload: w.payload, stale: stale})
	if err != nil {
		return throughput{}, err
	}
	got, err := w.timeDrain(ctx, n)
	if err != nil {
		return got, err
	}
	return got, w.succeeded(ctx, first, n)
}

// drainComing times how long a dispatcher that runs already takes for n deliveries that all become due at a moment to come.
func (w *world) drainComing(ctx context.Context, n int) (rate float64, err error) {
	const notice = 4 * time.Second // long enough to make them and to have them noticed
	endpoints, err := w.drainEndpoints(ctx, (n+perEndpoint-1)/perEndpoint)
	if err != nil {
		return 0, err
	}
	target := w.recorded.attempts.Load() + int64(n)
	due := w.clock.Now().Add(notice)
	first, err := w.fill(ctx, filling{endpoints: endpoints, n: n, payload: w.payload, due: due})
	if err != nil {
		return 0, err
	}
	wait := due.Sub(w.clock.Now())
	if wait <= 0 {
		return 0, fmt.Errorf("making %d deliveries took longer than %s", n, notice)
	}
	time.Sleep(wait)
	begun := time.Now()
	if err := w.awaitRecorded(ctx, target, drainPatience); err != nil {
		return 0, fmt.Errorf("drain: %w", err)
	}
	return float64(n) / time.Since(begun).Seconds(), w.succeeded(ctx, first, n)
}

// timeDrain runs a dispatcher until it has recorded n attempts.
func (w *world) timeDrain(ctx context.Context, n int) (throughput, error) {
	pgBefore, err := w.pgCPUTime(ctx)
	if err != nil {
		return throughput{}, err
	}
	walBefore, err := w.walPosition(ctx)
	if err != nil {
		return throughput{}, err
	}
	target := w.recorded.attempts.Load() + int64(n)
	before, begun := cpuTime(), time.Now()
	stop := w.startDispatcher()
	err = w.awaitRecorded(ctx, target, drainPatience)
	took, cpu := time.Since(begun), cpuTime()-before
	stop()
	if err != nil {
		return throughput{}, fmt.Errorf("drain: %w", err)
	}
	walAfter, err := w.walPosition(ctx)
	if err != nil {
		return throughput{}, err
	}
	pgAfter, err := w.pgCPUTime(ctx)
	if err != nil {
		return throughput{}, err
	}
	return throughput{
		rate: float64(n) / took.Seconds(), cpu: cpu.Seconds() * 1000 / float64(n),
		pgCPU: (pgAfter - pgBefore).Seconds() * 1000 / float64(n), wal: float64(walAfter-walBefore) / float64(n),
	}, nil
}

func (w *world) walPosition(ctx context.Context) (n int64, err error) {
	err = w.db.QueryRow(ctx, `SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint`).Scan(&n)
	return n, err
}
