package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/pg"
)

// filling is a backlog to make: n events with a delivery each, in turn to the endpoints.
type filling struct {
	endpoints []endpoint
	n         int
	payload   []byte
	due       time.Time // zero: at once
	atOnce    bool      // one commit makes all of it due
	stale     bool      // statistics stay what they were before
}

// fillChunk is how many events go into a transaction and a round trip.
const fillChunk = 1000

// fill makes a backlog that is due at once, and gives the id that all of its own come after.
func (w *world) fill(ctx context.Context, f filling) (first int64, err error) {
	first = w.ids.Next()
	chunks := func(to interface {
		SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
	},
	) error {
		for at := 0; at < f.n; at += fillChunk {
			b := &pgx.Batch{}
			w.queueEvents(b, f, at, min(fillChunk, f.n-at))
			if err := to.SendBatch(ctx, b).Close(); err != nil {
				return err
			}
		}
		return nil
	}
	if f.atOnce {
		err = pg.InTx(ctx, w.db, func(tx pgx.Tx) error { return chunks(tx) })
	} else {
		err = chunks(w.db) // a batch is a transaction
	}
	if err == nil && !f.stale {
		_, err = w.db.Exec(ctx, `VACUUM (ANALYZE) deliveries`)
	}
	if err != nil {
		return 0, fmt.Errorf("make a backlog: %w", err)
	}
	return first, nil
}

// queueEvents queues n events with a delivery each, beginning with the endpoint of that number, and gives the
// deliveries.
func (w *world) queueEvents(b *pgx.Batch, f filling, at, n int) []dispatcher.NewDelivery {
	const query = `
INSERT INTO events (shard, id, tenant_id, type, content_type, payload, delivery_ids)
SELECT e.shard, e.id, e.tenant, 'bench', 'application/json', @payload, ARRAY[e.delivery]
  FROM unnest(@shards::smallint[], @ids::bigint[], @tenants::bigint[], @deliveries::bigint[]) AS e(shard, id, tenant, delivery)`
	news := make([]dispatcher.NewDelivery, n)
	shards, events, tenants, deliveries := make([]int16, n), make([]int64, n), make([]int64, n), make([]int64, n)
	due := f.due
	if due.IsZero() {
		due = w.clock.Now()
	}
	for i := range news {
		e := f.endpoints[(at+i)%len(f.endpoints)]
		d := dispatcher.NewDelivery{
			Shard: e.id.Shard, Event: w.ids.Next(), ID: w.ids.Next(), Tenant: e.tenant.N, Endpoint: e.id.N, DueAt: due,
		}
		news[i], shards[i], events[i], tenants[i], deliveries[i] = d, d.Shard, d.Event, d.Tenant, d.ID
	}
	if n == 0 {
		return nil
	}
	b.Queue(query, pgx.StrictNamedArgs{
		"shards": shards, "ids": events, "tenants": tenants, "deliveries": deliveries, "payload": f.payload,
	})
	dispatcher.QueueNew(b, news)
	return news
}

// succeeded makes sure that n deliveries made after that id succeeded, each with one attempt that is kept.
func (w *world) succeeded(ctx context.Context, first int64, n int) error {
	done, attempts, err := w.ended(ctx, first)
	if err != nil {
		return err
	}
	if done != n || attempts != n {
		return fmt.Errorf("%d of %d deliveries succeeded, %d attempts are kept", done, n, attempts)
	}
	return nil
}

func (w *world) ended(ctx context.Context, first int64) (succeeded, attempts int, err error) {
	// By bucket, so that keys are used: the tables may be very full.
	const query = `
SELECT (SELECT count(*) FROM deliveries_finished WHERE shard = ANY (@shards) AND id > @first AND state = 'succeeded'),
       (SELECT count(*) FROM attempts WHERE shard = ANY (@shards) AND delivery_id > @first)`
	err = w.db.QueryRow(ctx, query, pgx.StrictNamedArgs{"shards": w.shards(), "first": first}).Scan(&succeeded, &attempts)
	return succeeded, attempts, err
}

// shards are the buckets of all tenants, each once.
func (w *world) shards() []int16 {
	var out []int16
	seen := map[int16]bool{}
	for _, t := range append(w.tenants[:len(w.tenants):len(w.tenants)], w.enqueuers...) {
		if !seen[t.ID.Shard] {
			seen[t.ID.Shard] = true
			out = append(out, t.ID.Shard)
		}
	}
	return out
}

// awaitRecorded waits until so many attempts, counted from the start of this process, are written down.
func (w *world) awaitRecorded(ctx context.Context, n int64, patience time.Duration) error {
	end := time.Now().Add(patience)
	for w.recorded.attempts.Load() < n {
		if time.Now().After(end) {
			return fmt.Errorf("%d attempts were still missing after %s", n-w.recorded.attempts.Load(), patience)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}
