package intake

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/traceparent"
)

const (
	// chunkBytes and chunkRows bound what one statement carries: PostgreSQL takes 1 GiB in a message, and memory on both
	// sides is several times what is sent.
	chunkBytes = 8 << 20
	chunkRows  = 5000
)

// write queues everything that the drafts come to and sends it, with the commit, in one round trip. It gives the
// deliveries that it makes.
func (i *Intake) write(ctx context.Context, tx transaction, drafts []*draft, now time.Time) ([]dispatcher.NewDelivery, error) {
	b := &pgx.Batch{}
	rows := &rows{b: b}
	for _, d := range drafts {
		queueCorrections(b, d)
		for n := range d.items {
			if d.isNew(n) {
				i.add(rows, d, n, now)
			}
		}
		i.noteTest(b, d)
	}
	rows.flush()
	tx.commitWith(b)
	if err := tx.sendLast(ctx, b); err != nil {
		return nil, fmt.Errorf("store events: %w", err)
	}
	return rows.deliveries, nil
}

// noteTest queues what the audit log says of a test. Other events are records of themselves.
func (i *Intake) noteTest(b *pgx.Batch, d *draft) {
	if d.only == nil || d.err != nil {
		return
	}
	audit.Queue(b, d.tester, i.ids.Next, audit.Entry{
		Action: audit.EndpointTested, Object: audit.Thing{Kind: id.Endpoint, ID: *d.only}, Tenant: &d.tenant,
		Details: audit.Details{"event": id.Event.Format(id.ID{Shard: d.tenant.Shard, N: d.events[0].n}), "type": d.items[0].Type},
	})
}

// add puts an event and its deliveries into the rows.
func (i *Intake) add(rows *rows, d *draft, n int, now time.Time) {
	i.addDeliveries(rows, d, n, now)
	rows.addEvent(d.tenant, &d.items[n], &d.events[n], d.trace)
}

// addDeliveries makes those of an event. A deliver_at that has passed is now, and not kept.
func (i *Intake) addDeliveries(rows *rows, d *draft, n int, now time.Time) {
	it, e := &d.items[n], &d.events[n]
	at, later := now, false
	if it.DeliverAt != nil && it.DeliverAt.After(now) {
		at, later = *it.DeliverAt, true
		e.deliverAt = it.DeliverAt
	}
	for _, t := range e.targets {
		delivery := i.ids.Next()
		rows.addDelivery(dispatcher.NewDelivery{
			Shard: d.tenant.Shard, ID: delivery, Tenant: d.tenant.N, Event: e.n, Endpoint: t.endpoint, DueAt: at,
			Scheduled: later, Pull: t.pull, Group: t.group(it.GroupKey, delivery),
		})
	}
}

// The ids of all the events' deliveries come as one array, of which each event takes a slice: arrays of different lengths
// do not fit into one, and to read them from text would cost more. The payloads come as one piece as well, for a bytea[]
// costs the driver several times what it costs to put them behind one another; and they come last, since what follows in
// the driver's buffer makes it grow again.
const eventsSQL = `
INSERT INTO events (shard, id, tenant_id, uid, type, content_type, payload, group_key, deliver_at, delivery_ids, skipped,
    metadata, trace)
SELECT e.shard, e.id, e.tenant_id, e.uid, e.type, coalesce(e.content_type, @json),
    substring(p.payloads FROM e.payload_from FOR e.payload_size), e.group_key, e.deliver_at,
    (@deliveries::bigint[])[e.delivery_from : e.delivery_from + e.delivery_count - 1], e.skipped::jsonb, e.metadata::jsonb, e.trace
FROM unnest(@shards::smallint[], @ids::bigint[], @tenants::bigint[], @uids::text[], @types::text[],
    @content_types::text[], @payload_froms::integer[], @payload_sizes::integer[], @group_keys::text[], @deliver_ats::timestamptz[],
    @delivery_froms::integer[], @delivery_counts::integer[], @skipped::text[], @metadata::text[], @traces::bytea[])
    AS e (shard, id, tenant_id, uid, type, content_type, payload_from, payload_size, group_key, deliver_at,
        delivery_from, delivery_count, skipped, metadata, trace)
CROSS JOIN (SELECT @payloads::bytea) AS p (payloads)`

// rows gathers the rows of all buckets as columns and queues them in chunks.
type rows struct {
	b          *pgx.Batch
	ev         eventColumns
	deliveries []dispatcher.NewDelivery
	queued     int // of those, so many are in b
}

type eventColumns struct {
	bytes                              int // of what is large
	shards                             []int16
	ids, tenants                       []int64
	types                              []string
	contentTypes                       nullable[string] // NULL: JSON
	uids, groupKeys, skipped, metadata nullable[string]
	deliverAts                         nullable[time.Time]
	traces                             [][]byte // nil as long as no event has one
	payloads                           [][]byte // one after the other, as the ids of deliveries
	deliveries                         []int64
	payload, delivery                  parts // where an event's own are among them
}

// parts are what a whole falls into, one after the other, counted from 1.
type parts struct {
	from, size []int32
	next       int32
}

func (p *parts) add(size int) {
	p.from, p.size = append(p.from, p.next+1), append(p.size, int32(size)) //nolint:gosec // what a statement carries is bounded
	p.next += int32(size)                                                  //nolint:gosec // the same
}

// nullable is a column that most rows have nothing in. As long as none has, the column is NULL as a whole, which unnest
// takes for a NULL in each row.
type nullable[T any] struct {
	values []*T
	some   bool
}

func (c *nullable[T]) add(v *T) {
	c.values = append(c.values, v)
	c.some = c.some || v != nil
}

func (c *nullable[T]) arg() []*T {
	if !c.some {
		return nil
	}
	return c.values
}

// addTrace comes after the event's id. Events without a trace, as all are while nothing is traced, cost nothing.
func (c *eventColumns) addTrace(trace traceparent.Context) {
	if c.traces == nil && !trace.Valid() {
		return
	}
	if c.traces == nil {
		c.traces = make([][]byte, len(c.ids)-1, cap(c.ids))
	}
	c.traces = append(c.traces, trace.Bytes())
}

// addEvent comes after the event's deliveries.
func (r *rows) addEvent(tenant id.ID, it *item, e *event, trace traceparent.Context) {
	ev := &r.ev
	ev.shards, ev.ids, ev.tenants = append(ev.shards, tenant.Shard), append(ev.ids, e.n), append(ev.tenants, tenant.N)
	ev.types = append(ev.types, it.Type)
	if it.ContentType == defaultContentType {
		ev.contentTypes.add(nil)
	} else {
		ev.contentTypes.add(&it.ContentType)
	}
	ev.uids.add(optional(&it.UID))
	ev.groupKeys.add(optional(&it.GroupKey))
	ev.skipped.add(e.skipped)
	ev.metadata.add(optional(&it.metadata))
	ev.deliverAts.add(e.deliverAt)
	ev.addTrace(trace)
	ev.payloads = append(ev.payloads, it.Payload)
	ev.payload.add(len(it.Payload))
	ev.delivery.add(e.fanOut)
	ev.bytes += len(it.Payload)
	if e.skipped != nil {
		ev.bytes += len(*e.skipped)
	}
	if ev.bytes > chunkBytes || len(ev.ids) == chunkRows || len(ev.deliveries) >= chunkRows {
		r.flushEvents()
	}
}

func (r *rows) addDelivery(d dispatcher.NewDelivery) {
	r.ev.deliveries = append(r.ev.deliveries, d.ID)
	r.deliveries = append(r.deliveries, d)
	if len(r.deliveries)-r.queued == chunkRows {
		r.flushDeliveries()
	}
}

func (r *rows) flush() {
	r.flushEvents()
	r.flushDeliveries()
}

func (r *rows) flushEvents() {
	ev := &r.ev
	if len(ev.ids) == 0 {
		return
	}
	if ev.deliveries == nil {
		ev.deliveries = []int64{} // nil would be NULL, and so would its slices
	}
	r.b.Queue(eventsSQL, pgx.StrictNamedArgs{
		"shards": ev.shards, "ids": ev.ids, "tenants": ev.tenants, "uids": ev.uids.arg(), "types": ev.types,
		"content_types": ev.contentTypes.arg(), "json": defaultContentType, "payloads": joined(ev.payloads, int(ev.payload.next)),
		"payload_froms": ev.payload.from, "payload_sizes": ev.payload.size, "group_keys": ev.groupKeys.arg(),
		"deliver_ats": ev.deliverAts.arg(), "deliveries": ev.deliveries, "delivery_froms": ev.delivery.from,
		"delivery_counts": ev.delivery.size, "skipped": ev.skipped.arg(), "metadata": ev.metadata.arg(), "traces": ev.traces,
	})
	r.ev = eventColumns{}
}

func (r *rows) flushDeliveries() {
	dispatcher.QueueNew(r.b, r.deliveries[r.queued:])
	r.queued = len(r.deliveries)
}

// joined is never nil, which would be stored as NULL.
func joined(pieces [][]byte, size int) []byte {
	all := make([]byte, 0, size)
	for _, p := range pieces {
		all = append(all, p...)
	}
	return all
}

func optional(s *string) *string {
	if *s == "" {
		return nil
	}
	return s
}
