package intake

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/dispatcher"
)

const (
	// chunkBytes and chunkRows bound what one statement carries: PostgreSQL takes 1 GiB in a message, and memory on both
	// sides is several times what is sent.
	chunkBytes = 8 << 20
	chunkRows  = 5000
)

// write queues everything that the drafts come to and sends it in one round trip. It gives the buckets that have
// deliveries due now.
func (i *Intake) write(ctx context.Context, tx pgx.Tx, buckets []bucket, now time.Time) (due []int16, err error) {
	b := &pgx.Batch{}
	for _, bu := range buckets {
		rows := newRows(b, bu.shard)
		for _, d := range bu.drafts {
			queueCorrections(b, d)
			for n := range d.items {
				if d.isNew(n) {
					i.add(rows, d, n, now)
				}
			}
		}
		rows.flush()
		if rows.due {
			due = append(due, bu.shard)
		}
	}
	if b.Len() == 0 {
		return nil, nil
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("store events: %w", err)
	}
	return due, nil
}

// add puts an event and its deliveries into the rows. A deliver_at that has passed is now, and not kept.
func (i *Intake) add(rows *rows, d *draft, n int, now time.Time) {
	it, e := &d.items[n], &d.events[n]
	at, later := now, false
	if it.DeliverAt != nil && it.DeliverAt.After(now) {
		at, later = *it.DeliverAt, true
		e.deliverAt = it.DeliverAt
	}
	rows.addEvent(d.tenant.N, it, e)
	for _, endpoint := range e.targets {
		rows.addDelivery(dispatcher.NewDelivery{
			ID: i.ids.Next(), Tenant: d.tenant.N, Event: e.n, Endpoint: endpoint, DueAt: at, Scheduled: later,
		})
	}
	rows.due = rows.due || !later && len(e.targets) > 0
}

const eventsSQL = `
INSERT INTO events (shard, id, tenant_id, uid, type, content_type, payload, group_key, deliver_at, fan_out, skipped, metadata)
SELECT @shard, e.id, e.tenant_id, e.uid, e.type, e.content_type, e.payload, e.group_key, e.deliver_at, e.fan_out,
    e.skipped::jsonb, e.metadata::jsonb
FROM unnest(@ids::bigint[], @tenants::bigint[], @uids::text[], @types::text[], @content_types::text[], @payloads::bytea[],
    @group_keys::text[], @deliver_ats::timestamptz[], @fan_outs::integer[], @skipped::text[], @metadata::text[])
    AS e (id, tenant_id, uid, type, content_type, payload, group_key, deliver_at, fan_out, skipped, metadata)`

// rows gathers the rows of one bucket as columns and queues them in chunks.
type rows struct {
	b     *pgx.Batch
	shard int16
	due   bool
	bytes int
	ev    struct {
		ids, tenants                       []int64
		types, contentTypes                []string
		uids, groupKeys, skipped, metadata []*string
		payloads                           [][]byte
		deliverAts                         []*time.Time
		fanOuts                            []int
	}
	deliveries []dispatcher.NewDelivery
}

func newRows(b *pgx.Batch, shard int16) *rows { return &rows{b: b, shard: shard} }

func (r *rows) addEvent(tenant int64, it *item, e *event) {
	ev := &r.ev
	ev.ids, ev.tenants = append(ev.ids, e.n), append(ev.tenants, tenant)
	ev.types, ev.contentTypes = append(ev.types, it.Type), append(ev.contentTypes, it.ContentType)
	ev.uids, ev.groupKeys = append(ev.uids, optional(it.UID)), append(ev.groupKeys, optional(it.GroupKey))
	ev.skipped, ev.metadata = append(ev.skipped, e.skipped), append(ev.metadata, optional(it.metadata))
	ev.payloads = append(ev.payloads, it.Payload)
	ev.deliverAts = append(ev.deliverAts, e.deliverAt)
	ev.fanOuts = append(ev.fanOuts, e.fanOut)
	r.bytes += len(it.Payload)
	if e.skipped != nil {
		r.bytes += len(*e.skipped)
	}
	if r.bytes > chunkBytes || len(ev.ids) == chunkRows {
		r.flushEvents()
	}
}

func (r *rows) addDelivery(d dispatcher.NewDelivery) {
	r.deliveries = append(r.deliveries, d)
	if len(r.deliveries) == chunkRows {
		r.flushDeliveries()
	}
}

func (r *rows) flush() {
	r.flushEvents()
	r.flushDeliveries()
}

func (r *rows) flushEvents() {
	ev := r.ev
	if len(ev.ids) == 0 {
		return
	}
	r.b.Queue(eventsSQL, pgx.StrictNamedArgs{
		"shard": r.shard, "ids": ev.ids, "tenants": ev.tenants, "uids": ev.uids, "types": ev.types,
		"content_types": ev.contentTypes, "payloads": ev.payloads, "group_keys": ev.groupKeys, "deliver_ats": ev.deliverAts,
		"fan_outs": ev.fanOuts, "skipped": ev.skipped, "metadata": ev.metadata,
	})
	fresh := newRows(r.b, r.shard)
	r.ev, r.bytes = fresh.ev, 0
}

func (r *rows) flushDeliveries() {
	dispatcher.QueueNew(r.b, r.shard, r.deliveries)
	r.deliveries = nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
