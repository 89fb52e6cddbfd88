package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// aroundSnapshot is how many drains there are before a snapshot is opened, and after it is let go.
const aroundSnapshot = 3

// measureSnapshot drains again and again before, while and after another session holds a snapshot open, which keeps every
// dead row where it is. Nothing is truncated meanwhile, as that would remove them all the same.
func (b *bench) measureSnapshot(ctx context.Context) ([]measurement, error) {
	w := b.w
	stop := w.startDispatcher() // one for all of it, as in production: what it has seen go it need not read again
	defer stop()
	before, err := w.drains(ctx, 1+aroundSnapshot, b.drain)
	if err != nil {
		return nil, err
	}
	before = before[1:] // the first one warms up
	release, err := w.holdSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	var during []float64
	begun := time.Now()
	for len(during) == 0 || time.Since(begun) < b.snapshot {
		got, err := w.drains(ctx, 1, b.drain)
		if err != nil {
			release()
			return nil, fmt.Errorf("beside the snapshot: %w", err)
		}
		during = append(during, got...)
		fmt.Printf("  after %s under the snapshot: %.0f/s\n", time.Since(begun).Round(time.Second), got[0])
	}
	var dead int64
	const query = `SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'deliveries'`
	if err := w.db.QueryRow(ctx, query).Scan(&dead); err != nil {
		release()
		return nil, err
	}
	release()
	after, err := w.drains(ctx, aroundSnapshot, b.drain) // each begins with a VACUUM, which finds the dead rows free
	if err != nil {
		return nil, fmt.Errorf("after the snapshot: %w", err)
	}
	rate := median(before)
	return []measurement{
		{name: fmt.Sprintf("drain beside a snapshot held for %s / before, median", b.snapshot), got: median(during) / rate, unit: "×", want: atLeast(0.9)},
		{name: "drain beside a snapshot: the last three / before", got: median(during[max(0, len(during)-3):]) / rate, unit: "×", want: atLeast(0.9)},
		{name: "  dead rows in the table of work by then", got: float64(dead), unit: ""},
		{name: "drain after the snapshot was let go / before", got: median(after) / rate, unit: "×", want: atLeast(0.95)},
	}, w.clear(ctx)
}

// drains gives the rates of n drains, whose history stays.
func (w *world) drains(ctx context.Context, n, size int) ([]float64, error) {
	var rates []float64
	for range n {
		rate, err := w.drainComing(ctx, size)
		if err != nil {
			return nil, err
		}
		rates = append(rates, rate)
	}
	return rates, nil
}

// holdSnapshot opens a transaction on a connection of its own that sees the database as it is now until it is let go.
func (w *world) holdSnapshot(ctx context.Context) (release func(), err error) {
	conn, err := pgx.Connect(ctx, w.url)
	if err != nil {
		return nil, err
	}
	release = func() { _ = conn.Close(context.WithoutCancel(ctx)) }
	for _, query := range []string{
		`SET idle_in_transaction_session_timeout = 0`,
		`BEGIN ISOLATION LEVEL REPEATABLE READ`,
		`SELECT pg_current_snapshot()`, // locks no table
	} {
		if _, err := conn.Exec(ctx, query); err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// measureSteady drains again and again on the same connections, whose plans were made when the tables were empty, and in
// every second drain with statistics that say they still are.
func (b *bench) measureSteady(ctx context.Context) ([]measurement, error) {
	var rates, cpu []float64
	for i := range b.steady {
		got, err := b.w.drain(ctx, b.drain, i%2 == 1)
		if err != nil {
			return nil, err
		}
		if err := b.w.clear(ctx); err != nil {
			return nil, err
		}
		rates, cpu = append(rates, got.rate), append(cpu, got.pgCPU)
		fmt.Printf("  drain %d of %d: %.0f/s, %.3f s of PostgreSQL's CPU per 1,000\n", i+1, b.steady, got.rate, got.pgCPU)
	}
	return []measurement{
		{name: fmt.Sprintf("%d drains in a row: the slowest / their median", b.steady), got: slices.Min(rates) / median(rates), unit: "×", want: atLeast(0.5)},
		{name: fmt.Sprintf("%d drains in a row: the most CPU of PostgreSQL / their median", b.steady), got: slices.Max(cpu) / median(cpu), unit: "×", want: atMost(2)},
	}, nil
}
