package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

const (
	txEvents = 1000 // in one transaction
	txRounds = 5    // of each way, taking turns
)

// measureTx holds postrider.enqueue against plain inserts of the same bytes.
func (b *bench) measureTx(ctx context.Context) ([]measurement, error) {
	pool, err := pg.Open(ctx, b.w.url, clients)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS bench_inserts (id bigint PRIMARY KEY, payload bytea NOT NULL)`); err != nil {
		return nil, err
	}
	defer func() { _, _ = pool.Exec(context.WithoutCancel(ctx), `DROP TABLE bench_inserts`) }()
	inOne, err := b.w.inOneTransaction(ctx, pool)
	if err != nil {
		return nil, fmt.Errorf("in one transaction: %w", err)
	}
	byMany, err := b.w.byManyProducers(ctx, pool, b.enqueue)
	if err != nil {
		return nil, fmt.Errorf("by many producers: %w", err)
	}
	return append(inOne, byMany...), b.w.clear(ctx)
}

const plainSQL = `INSERT INTO bench_inserts VALUES ($1, $2)`

// inOneTransaction takes turns on one connection: a transaction of plain inserts, one of events, one of events with a uid. Each
// statement has its own round trip, and each transaction its commit.
func (w *world) inOneTransaction(ctx context.Context, pool *pgxpool.Pool) ([]measurement, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	tenant := w.enqueuers[0].ID
	plain := func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, plainSQL, w.ids.Next(), w.payload)
		return err
	}
	event := func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SELECT postrider.enqueue(tenant => $1, type => 'bench', payload => $2)`, id.Tenant.Format(tenant), w.payload)
		return err
	}
	named := func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SELECT postrider.enqueue(tenant => $1, type => 'bench', payload => $2, uid => $3)`, id.Tenant.Format(tenant), w.payload,
			fmt.Sprint("u", w.ids.Next()))
		return err
	}
	var took, worked [3]time.Duration
	for round := range txRounds + 1 {
		for way, act := range []func(pgx.Tx) error{plain, event, named} {
			begun, before := time.Now(), w.bothCPUTime(ctx)
			err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				for range txEvents {
					if err := act(tx); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
			if round > 0 { // the first is for plans and caches
				took[way] += time.Since(begun)
				worked[way] += w.bothCPUTime(ctx) - before
			}
		}
	}
	each := took[0].Seconds() * 1e6 / txEvents / txRounds
	return []measurement{
		{name: "  an insert in a transaction of 1,000", got: each, unit: "µs"},
		{name: "1,000 events in a transaction / 1,000 plain inserts", got: took[1].Seconds() / took[0].Seconds(), unit: "×", want: atMost(3)},
		{name: "1,000 events with a uid / 1,000 plain inserts", got: took[2].Seconds() / took[0].Seconds(), unit: "×"},
		{name: "  in processor time of both sides", got: worked[1].Seconds() / worked[0].Seconds(), unit: "×"},
		{name: "  in processor time of both sides, with a uid", got: worked[2].Seconds() / worked[0].Seconds(), unit: "×"},
	}, nil
}

// bothCPUTime is what this process and PostgreSQL's have used: on a machine that does other things besides, it says more than time does.
func (w *world) bothCPUTime(ctx context.Context) time.Duration {
	theirs, err := w.pgCPUTime(ctx)
	if err != nil {
		return 0
	}
	return cpuTime() + theirs
}

// byManyProducers has many commit one event at a time: with the NOTIFY, and without, for which somebody holds its lock. Then it
// fans out what they have enqueued.
func (w *world) byManyProducers(ctx context.Context, pool *pgxpool.Pool, long time.Duration) ([]measurement, error) {
	inserts, err := load(pace{Clients: clients, Long: long}, func(int, time.Time) error { return w.insert(ctx, pool) })
	if err != nil {
		return nil, err
	}
	events := func() (loaded, error) {
		return load(pace{Clients: clients, Long: long}, func(c int, _ time.Time) error {
			_, err := pool.Exec(ctx, `SELECT postrider.enqueue(tenant => $1, type => 'bench', payload => $2)`,
				id.Tenant.Format(w.enqueuers[c%len(w.enqueuers)].ID), w.payload)
			return err
		})
	}
	told, err := events()
	if err != nil {
		return nil, err
	}
	held, err := w.db.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = held.Rollback(ctx) }()
	if _, err := held.Exec(ctx, `SELECT pg_advisory_xact_lock(1886610804, 2), set_config('idle_in_transaction_session_timeout', '0', true)`); err != nil {
		return nil, err
	}
	untold, err := events()
	if err != nil {
		return nil, err
	}
	if err := held.Rollback(ctx); err != nil {
		return nil, err
	}
	begun, n := time.Now(), 0
	for {
		some, err := w.intake.RouteOnce(ctx)
		if err != nil {
			return nil, err
		}
		if n += some; some == 0 {
			break
		}
	}
	fanned := float64(n) / time.Since(begun).Seconds()
	return []measurement{
		{name: "one event a transaction, 64 producers / single-row inserts", got: told.Rate / inserts.Rate, unit: "×"},
		{name: "  p99 of those / single-row inserts' p99", got: told.P99 / inserts.P99, unit: "×"},
		{name: "with its NOTIFY / without", got: told.Rate / untold.Rate, unit: "×", want: atLeast(0.8)},
		{name: "fan-out of what was enqueued so / its enqueueing", got: fanned / told.Rate, unit: "×", want: atLeast(1)},
	}, nil
}
