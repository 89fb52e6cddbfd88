package intake

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
)

// past is what is stored under a key that was taken.
type past struct {
	digest []byte
	ids    []int64
	events []known
}

// complete reports whether all its events are still there.
func (p *past) complete() bool { return len(p.events) == len(p.ids) }

// Uses the primary keys of idempotency_keys and, for each event, of the one partition of events that its id lies in.
//
// The lock makes this a transaction whose commit waits, as the first one's did. What can be read is not yet what lasts: where
// commits wait for a standby, one that was broken off in its wait shows here all the same, and is gone if the standby takes
// over. Who is told that his event was accepted before must be able to rely on that, too.
const recallSQL = `
SELECT k.shard, k.tenant_id, k.kind, k.key, k.digest, k.event_ids, e.id, e.type, e.uid, e.fan_out, e.deliver_at, e.broken
FROM unnest(@shards::smallint[], @tenants::bigint[], @kinds::text[], @keys::text[]) AS lost (shard, tenant_id, kind, key)
CROSS JOIN LATERAL (
    SELECT shard, tenant_id, kind, key, digest, event_ids FROM idempotency_keys
     WHERE shard = lost.shard AND tenant_id = lost.tenant_id AND kind = lost.kind AND key = lost.key LIMIT 1
       FOR KEY SHARE) k
CROSS JOIN LATERAL unnest(k.event_ids) WITH ORDINALITY AS named (id, place)
LEFT JOIN LATERAL (
    SELECT id, type, uid, cardinality(delivery_ids) AS fan_out, deliver_at, skipped @> '[{"r": "schema"}]' AS broken FROM events
     WHERE shard = k.shard AND id = named.id AND tenant_id = k.tenant_id LIMIT 1) e ON true
ORDER BY k.shard, k.tenant_id, k.kind, k.key, named.place`

// recall finds what the claims that were lost stand for: the same content is a replay, other content a fault.
func recall(ctx context.Context, tx transaction, drafts []*draft, now time.Time) error {
	var shards []int16
	var tenants []int64
	var kinds, keys []string
	for _, d := range drafts {
		for _, c := range d.claims {
			if d.err == nil && !c.won {
				shards, tenants = append(shards, c.tenant.Shard), append(tenants, c.tenant.N)
				kinds, keys = append(kinds, c.kind), append(keys, c.key)
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	b, before := &pgx.Batch{}, map[keyRef]*past{}
	b.Queue(recallSQL, pgx.StrictNamedArgs{"shards": shards, "tenants": tenants, "kinds": kinds, "keys": keys}).
		Query(func(rows pgx.Rows) error { return collectPast(rows, before) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("read what an idempotency key stands for: %w", err)
	}
	for _, d := range drafts {
		if err := d.settleLost(ctx, tx, before, now); err != nil {
			return err
		}
	}
	return nil
}

func collectPast(rows pgx.Rows, before map[keyRef]*past) error {
	for rows.Next() {
		at := keyRef{}
		var p past
		var n *int64
		var fanOut *int
		var eventType, uid *string
		var deliverAt *time.Time
		var broken *bool
		err := rows.Scan(&at.tenant.Shard, &at.tenant.N, &at.kind, &at.key, &p.digest, &p.ids, &n, &eventType, &uid, &fanOut,
			&deliverAt, &broken)
		if err != nil {
			return fmt.Errorf("read an idempotency row: %w", err)
		}
		if before[at] == nil {
			before[at] = &p
		}
		if n != nil {
			k := known{n: *n, eventType: *eventType, deliverAt: utc(deliverAt), unrouted: fanOut == nil, broken: broken != nil && *broken}
			if fanOut != nil {
				k.fanOut = *fanOut
			}
			if uid != nil {
				k.uid = *uid
			}
			before[at].events = append(before[at].events, k)
		}
	}
	return rows.Err() //nolint:wrapcheck // wrapped where the batch is sent
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// settleLost decides what each lost claim of one draft means. The key of the whole request comes first.
func (d *draft) settleLost(ctx context.Context, tx transaction, before map[keyRef]*past, now time.Time) error {
	for _, c := range d.claims {
		if c.won || d.err != nil || d.replayed {
			continue
		}
		p := before[c.keyRef]
		switch {
		case p == nil: // it was dropped between the two statements
			d.err = overtaken()
		case !p.complete():
			if err := d.takeOver(ctx, tx, c, p.ids, now); err != nil {
				return err
			}
		case !bytes.Equal(p.digest, c.digest[:]):
			d.err = d.otherContent(c)
		case c.kind == kindKey:
			d.replayed = true
			for n := range d.events {
				d.events[n] = event{known: p.events[n], old: true}
			}
		default:
			d.events[c.item] = event{known: p.events[0], old: true}
		}
	}
	return nil
}

func (d *draft) otherContent(c *claim) error {
	if c.kind == kindKey {
		return wrong("", "this Idempotency-Key was used before for other content")
	}
	return wrong(d.items[c.item].at+"/uid", "the uid was used before for an event with other content")
}

// Uses the primary key. The row is another's already when its events have changed meanwhile.
const takeOverSQL = `
UPDATE idempotency_keys SET digest = @digest, event_ids = @new, created_at = @now
WHERE shard = @shard AND tenant_id = @tenant AND kind = @kind AND key = @key AND event_ids = @old`

// takeOver claims a row whose event is gone: a uid lives as long as its event.
func (d *draft) takeOver(ctx context.Context, tx transaction, c *claim, old []int64, now time.Time) error {
	tag, err := tx.Exec(ctx, takeOverSQL, pgx.StrictNamedArgs{
		"shard": c.tenant.Shard, "tenant": c.tenant.N, "kind": c.kind, "key": c.key,
		"digest": c.digest[:], "old": old, "new": d.ids(c), "now": now,
	})
	if err != nil {
		return fmt.Errorf("take an idempotency key over: %w", err)
	}
	c.won = tag.RowsAffected() == 1
	if !c.won {
		d.err = overtaken()
	}
	return nil
}

func overtaken() error {
	return fault.New(fault.Unavailable, "another request used the same key at this moment; nothing was done, repeat the request")
}
