package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

// measureBacklog drains turn about in a database with empty tables and in one beside it, in the same cluster, that has
// much in them.
func (b *bench) measureBacklog(ctx context.Context) ([]measurement, error) {
	if b.full == nil {
		if err := b.openFull(ctx); err != nil {
			return nil, err
		}
	}
	empty, err := b.w.drainAndClear(ctx, b.drain)
	if err != nil {
		return nil, fmt.Errorf("empty tables: %w", err)
	}
	full, err := b.full.drain(ctx, b.drain, false) // what it leaves behind is little beside what is there
	if err != nil {
		return nil, fmt.Errorf("full tables: %w", err)
	}
	return []measurement{
		{
			name: fmt.Sprintf("drain beside %s finished and %s future / empty tables", short(b.finished), short(b.future)),
			got:  full.rate / empty.rate, unit: "×", want: atLeast(0.85),
		},
		{name: "  full tables: CPU of PostgreSQL per 1,000 / empty tables", got: full.pgCPU / empty.pgCPU, unit: "×"},
		{name: "  full tables: WAL per delivery", got: full.wal, unit: "bytes"},
	}, nil
}

func short(n int) string {
	if n >= 1_000_000 && n%1_000_000 == 0 {
		return fmt.Sprintf("%dM", n/1_000_000)
	}
	return fmt.Sprint(n)
}

// openFull makes the database that has much in its tables. It takes some minutes.
func (b *bench) openFull(ctx context.Context) error {
	const name = "bench_full"
	var err error
	if b.full, err = b.beside(ctx, name); err != nil {
		return err
	}
	endpoints, err := b.full.drainEndpoints(ctx, (b.drain+perEndpoint-1)/perEndpoint)
	if err != nil {
		return err
	}
	begun := time.Now()
	fmt.Printf("  filling %d finished and %d future deliveries into %s\n", b.finished, b.future, name)
	if err := b.full.fillHistory(ctx, endpoints, b.finished, b.future); err != nil {
		return fmt.Errorf("fill %s: %w", name, err)
	}
	fmt.Printf("  (filling took %s)\n", time.Since(begun).Round(time.Second))
	return nil
}

// beside makes a world in a database of its own in the same cluster.
func (b *bench) beside(ctx context.Context, name string) (*world, error) {
	at, err := url.Parse(b.database)
	if err != nil {
		return nil, err
	}
	at.Path = "/" + name
	if _, err := b.w.db.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, fmt.Errorf("make a second database: %w", err)
	}
	return newWorld(ctx, at.String(), 1)
}

// Ids of history are spread evenly over the ten minutes before now, so they are in the partitions that a drain writes to
// as well. finishedSQL and attemptsSQL take the same ones. Events are left out: a drain reads those of its own by their
// keys, and 1 KiB each would make five times as much to fill.
const (
	historyBefore = 10 * time.Minute
	finishedSQL   = `
INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts, last_outcome, last_status, finished_at)
SELECT (@shards::smallint[])[1 + i % @k], @base + i * @step + 1, (@tenants::bigint[])[1 + i % @k], @base + i * @step,
       (@endpoints::bigint[])[1 + i % @k], 'succeeded', 1, 'succeeded', 200, @now
  FROM generate_series(@from::bigint, @to::bigint) AS i`
	attemptsSQL = `
INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, status, outcome,
       first_byte_us, total_us, address, signature, response_headers, response_body)
SELECT (@shards::smallint[])[1 + i % @k], @base + i * @step + 2, @base + i * @step + 1, (@endpoints::bigint[])[1 + i % @k],
       extract(epoch FROM @now::timestamptz)::bigint, 1, 1, 200, 'succeeded', 400, 500, '127.0.0.1:40000',
       'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=', 'Date: Mon, 30 Nov 2026 12:00:00 GMT', ''
  FROM generate_series(@from::bigint, @to::bigint) AS i`
	// futureSQL makes every second one a retry, and the others first attempts that are to come.
	futureSQL = `
INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, attempts, failures, lane, next_retry_at, last_outcome, last_status)
SELECT (@shards::smallint[])[1 + i % @k], @base + i * @step + 3, (@tenants::bigint[])[1 + i % @k], @base + i * @step,
       (@endpoints::bigint[])[1 + i % @k], CASE WHEN r.y = 1 THEN 'pending' ELSE 'scheduled' END::delivery_state, r.y, r.y, r.y,
       @now::timestamptz + interval '7 days' + i * interval '1 ms',
       CASE WHEN r.y = 1 THEN 'retryable' END::outcome, CASE WHEN r.y = 1 THEN 503 END
  FROM generate_series(@from::bigint, @to::bigint) AS i, LATERAL (SELECT (i / @k % 2)::integer AS y) AS r`
)

func (w *world) fillHistory(ctx context.Context, endpoints []endpoint, finished, future int) error {
	var shards []int16
	var ids, tenants []int64
	for _, e := range endpoints {
		shards, ids, tenants = append(shards, e.id.Shard), append(ids, e.id.N), append(tenants, e.tenant.N)
	}
	const idBits = 22 // an id's lower bits, below its milliseconds
	span := historyBefore.Milliseconds() << idBits
	args := pgx.NamedArgs{ // not strict: they are of three statements
		"shards": shards, "endpoints": ids, "tenants": tenants, "k": int64(len(endpoints)), "now": w.clock.Now(),
		"base": w.ids.Next() - span, "step": span / int64(max(finished, future)+1),
	}
	for _, f := range []struct {
		query string
		n     int
	}{{finishedSQL, finished}, {attemptsSQL, finished}, {futureSQL, future}} {
		const chunk = 250_000
		for from := 0; from < f.n; from += chunk {
			args["from"], args["to"] = int64(from), int64(min(from+chunk, f.n)-1)
			if _, err := w.db.Exec(ctx, f.query, args); err != nil {
				return err
			}
		}
	}
	if _, err := w.db.Exec(ctx, `VACUUM (ANALYZE) deliveries, deliveries_finished, attempts`); err != nil {
		return err
	}
	return checkpoint(ctx)
}

// checkpoint has PostgreSQL write out now what it would write in the background during the drains that follow. Only a
// superuser may ask for it; without one it is left out.
func checkpoint(ctx context.Context) error {
	admin := os.Getenv("POSTRIDER_TEST_ADMIN_URL")
	if admin == "" {
		return nil
	}
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, `CHECKPOINT`)
	return err
}
