package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/upkeep"
)

const (
	retentionDays = 40 // of history, of which 30 are kept
	retentionKept = 30
	// retentionTurn is how many events are sent one after the other between two looks at whether retention is done.
	retentionTurn = 50
)

// measureRetention looks at whether deliveries feel that ten days of history go: how long an event takes to its first byte, one at a time,
// with and without.
func (b *bench) measureRetention(ctx context.Context) ([]measurement, error) {
	w, err := b.beside(ctx, "bench_retention")
	if err != nil {
		return nil, err
	}
	defer w.close()
	begun := time.Now()
	fmt.Printf("  filling %d attempts\n", b.retention)
	if err := w.fillDays(ctx, b.retention/retentionDays); err != nil {
		return nil, fmt.Errorf("fill days of history: %w", err)
	}
	fmt.Printf("  (filling took %s)\n", time.Since(begun).Round(time.Second))
	_, before, err := w.latencyKept(ctx, 4*retentionTurn)
	if err != nil {
		return nil, err
	}
	keep := retentionKept * 24 * time.Hour
	r := upkeep.NewRetention(w.db, w.clock.Now, zerolog.Nop(), upkeep.Keep{Events: keep, Attempts: keep})
	done := make(chan error, 1)
	var took time.Duration
	go func() {
		at := time.Now()
		_, err := r.Run(ctx)
		took = time.Since(at)
		done <- err
	}()
	_, during, err := w.latencyKept(ctx, 4*retentionTurn)
	for err == nil {
		select {
		case rerr := <-done:
			return []measurement{
				{name: "  retention of ten days, " + short(b.retention/4) + " attempts among them", got: took.Seconds(), unit: "s"},
				{name: "enqueue to first byte p50 beside retention / without", got: during.p50 / before.p50, unit: "×"},
				{name: "enqueue to first byte p99 beside retention / without", got: during.p99 / before.p99, unit: "×"},
			}, rerr
		default:
		}
		var more percentiles
		_, more, err = w.latencyKept(ctx, retentionTurn)
		during.p50, during.p99 = max(during.p50, more.p50), max(during.p99, more.p99)
	}
	return nil, err
}

// fillDays makes days of attempts, and a tenth as many deliveries and events.
func (w *world) fillDays(ctx context.Context, perDay int) error {
	endpoints, err := w.drainEndpoints(ctx, 1)
	if err != nil {
		return err
	}
	e := endpoints[0]
	today := w.clock.Now().UTC().Truncate(24 * time.Hour)
	for back := retentionDays; back > 1; back-- {
		day := today.Add(-time.Duration(back) * 24 * time.Hour)
		from, to := id.Floor(day), id.Floor(day.Add(24*time.Hour))
		for _, table := range []string{"events", "deliveries_finished", "attempts"} {
			sql := fmt.Sprintf(`CREATE TABLE %s_%s PARTITION OF %s FOR VALUES FROM (%d) TO (%d)`, table, day.Format("20060102"), table, from, to)
			if _, err := w.db.Exec(ctx, sql); err != nil {
				return err
			}
		}
		step := (to - from) / int64(perDay+1)
		for _, sql := range []string{
			fmt.Sprintf(`INSERT INTO events (shard, id, tenant_id, type, content_type, payload, delivery_ids)
SELECT %d, %d + n * %d, %d, 'bench', 'application/json', '{}', '{}' FROM generate_series(1::bigint, %d, 10) n`, e.id.Shard, from, step, e.tenant.N, perDay),
			fmt.Sprintf(`INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts, last_outcome, finished_at)
SELECT %d, %d + n * %d + 1, %d, %[2]d + n * %[3]d, %[5]d, 'succeeded', 1, 'succeeded', now() FROM generate_series(1::bigint, %[6]d, 10) n`,
				e.id.Shard, from, step, e.tenant.N, e.id.N, perDay),
			fmt.Sprintf(`INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, outcome, total_us, signature)
SELECT %d, %d + n * %d + 2, %[2]d + n / 10 * %[3]d + 1, %[4]d, 1, 1, 1, 'succeeded', 500, 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
  FROM generate_series(1::bigint, %[5]d) n`, e.id.Shard, from, step, e.id.N, perDay),
		} {
			if _, err := w.db.Exec(ctx, sql); err != nil {
				return err
			}
		}
	}
	if _, err := w.db.Exec(ctx, `ANALYZE events, deliveries_finished, attempts`); err != nil {
		return err
	}
	return checkpoint(ctx)
}
