package intake

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

// What producers enqueue within transactions of their own (postrider.enqueue in migrations/0016_enqueue.sql) is stored without
// deliveries, and with a marker in events_unrouted. This is their fan-out: the very one of Accept, in a transaction for some
// hundred events at once. See docs/decisions/0029.

// unrouted is an event that is still to be fanned out, with its marker.
type unrouted struct {
	N           int64 // its place in the order of the fan-out
	Shard       int16
	Event       int64
	EndpointIDs []int64 // those that the producer named; nil: all that want it
	Tries       int

	Tenant      *int64 // nil: the event is gone, as after its retention
	UID         string
	Type        string
	ContentType string
	GroupKey    string
	DeliverAt   *time.Time
	Size        int  // of the payload
	Routed      bool // somebody has done it
}

// One process at a time fans out, so that the order within a group is kept. What it holds ends with its transaction.
const (
	routerSQL     = `SELECT pg_try_advisory_xact_lock(1886610804, 1)`
	routerWaitSQL = `SELECT true FROM pg_advisory_xact_lock(1886610804, 1)`
)

// The primary keys: of events_unrouted, in its order, and for each event of the one partition that it lies in. It comes after the
// lock, as a statement of its own, to see what was committed before that was let go.
const unroutedSQL = `
SELECT u.n, u.shard, u.event_id AS event, u.endpoint_ids, u.tries, e.tenant_id AS tenant, coalesce(e.uid, '') AS uid,
    coalesce(e.type, '') AS type, coalesce(e.content_type, '') AS content_type, coalesce(e.group_key, '') AS group_key, e.deliver_at,
    coalesce(octet_length(e.payload), 0) AS size, e.delivery_ids IS NOT NULL AS routed
FROM (SELECT * FROM events_unrouted
    WHERE n > @after AND CASE WHEN @some::bigint[] IS NULL THEN next_at IS NULL OR next_at <= @now ELSE n = ANY (@some::bigint[]) END
    ORDER BY n LIMIT @limit) u
LEFT JOIN LATERAL (
    SELECT tenant_id, uid, type, content_type, group_key, deliver_at, payload, delivery_ids FROM events
     WHERE shard = u.shard AND id = u.event_id LIMIT 1) e ON true
ORDER BY u.n`

// round is what one transaction of the fan-out is about, and what has come of it.
type round struct {
	after int64   // markers behind this one
	some  []int64 // and of those these alone; nil: all
	wait  bool    // for whoever fans out just now

	lost       bool // somebody else fans out
	taken      []unrouted
	horizon    int64 // whoever has a place before the last one taken is a transaction with a lower number than this
	made       int
	deliveries []dispatcher.NewDelivery
}

// carry does a round in one transaction, and tells whoever sends.
func (i *Intake) carry(ctx context.Context, r *round) error {
	asked := *r
	err := pg.InTx(ctx, rides{i.db}, func(tx pgx.Tx) error {
		*r = asked
		ride, _ := tx.(*ride) // what rides begin
		return i.fanOut(ctx, ride, r, i.now())
	})
	if err != nil {
		return err //nolint:wrapcheck // says it all
	}
	if len(r.deliveries) > 0 {
		i.wake(r.deliveries)
	}
	i.accepted(r.made)
	return nil
}

// fanOut is the walk through the transaction: which events, who may want them, what filters and schemas have to see, and who gets
// them.
func (i *Intake) fanOut(ctx context.Context, tx transaction, r *round, now time.Time) error {
	if err := takeUnrouted(ctx, tx, r, now); err != nil || len(r.taken) == 0 {
		return err
	}
	var drafts []*draft
	named := map[*draft]map[int64]bool{}
	for n := range r.taken {
		if u := &r.taken[n]; u.Tenant != nil && !u.Routed {
			d := u.draft()
			drafts = append(drafts, d)
			named[d] = u.named()
		}
	}
	drafts = inOrder(drafts)
	b, endpoints := tx.batch(), candidates{}
	subscriptions.QueueCandidates(b, tenantsOf(drafts), func(tenant id.ID, c []subscriptions.Candidate) { endpoints[tenant] = c })
	queueNewest(b, drafts, i.ids.Above)
	if b.Len() > 0 {
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("read the endpoints of enqueued events: %w", err)
		}
	}
	schemas := i.types.Schemas()
	if err := readPayloads(ctx, tx, drafts, endpoints, schemas); err != nil {
		return err
	}
	for _, d := range drafts {
		d.aim(0, endpoints[d.tenant], named[d], &i.filters, i.breach(d, schemas))
	}
	return i.writeRouted(ctx, tx, r, drafts, now)
}

func takeUnrouted(ctx context.Context, tx transaction, r *round, now time.Time) error {
	b := tx.batch()
	lock := routerSQL
	if r.wait {
		lock = routerWaitSQL
		b.Queue(patienceSQL, pgx.StrictNamedArgs{"patience": fmt.Sprint(lonePatience.Milliseconds())})
	}
	b.Queue(lock).QueryRow(func(row pgx.Row) error {
		var mine bool
		err := row.Scan(&mine)
		r.lost = !mine
		return err //nolint:wrapcheck // wrapped where the batch is sent
	})
	pg.PlanByIndex(b)
	b.Queue(unroutedSQL, pgx.StrictNamedArgs{"after": r.after, "some": r.some, "now": now, "limit": groupEvents}).
		Query(func(rows pgx.Rows) (err error) {
			r.taken, err = pgx.CollectRows(rows, pgx.RowToStructByName[unrouted])
			return err //nolint:wrapcheck // wrapped where the batch is sent
		})
	b.Queue(`SELECT pg_current_xact_id()::text::bigint`).QueryRow(func(row pgx.Row) error {
		return row.Scan(&r.horizon) //nolint:wrapcheck // wrapped where the batch is sent
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("take enqueued events: %w", err)
	}
	if r.lost {
		r.taken = nil
	}
	bytes := 0
	for n, u := range r.taken {
		if bytes += u.Size; bytes > groupBytes && n > 0 {
			r.taken = r.taken[:n]
			break
		}
	}
	return nil
}

func (u *unrouted) draft() *draft {
	tenant := id.ID{Shard: u.Shard, N: *u.Tenant}
	it := item{Event: Event{
		Type: u.Type, ContentType: u.ContentType, UID: u.UID, GroupKey: u.GroupKey, DeliverAt: utc(u.DeliverAt),
	}}
	return &draft{
		request: &request{tenant: tenant, items: []item{it}},
		events:  []event{{known: known{n: u.Event, eventType: u.Type, uid: u.UID}}},
	}
}

func (u *unrouted) named() map[int64]bool {
	if u.EndpointIDs == nil {
		return nil
	}
	named := make(map[int64]bool, len(u.EndpointIDs))
	for _, e := range u.EndpointIDs {
		named[e] = true
	}
	return named
}

// breach says where an event breaks the schema of its type, and tells the operator: its producer cannot be told any more.
func (i *Intake) breach(d *draft, schemas *subscriptions.Schemas) string {
	it := &d.items[0]
	err := schemas.Check(it.Type, it.ContentType, it.Payload)
	if err == nil {
		return ""
	}
	where := err.Error()
	var f *fault.Error
	if errors.As(err, &f) && len(f.Fields) > 0 {
		where = f.Fields[0].String()
	}
	i.fan.log.Warn().Str("event", id.Event.Format(id.ID{Shard: d.tenant.Shard, N: d.events[0].n})).
		Str("tenant", id.Tenant.Format(d.tenant)).Str("type", it.Type).Str("detail", where).Msg("fanout.schema_broken")
	return where
}

// Index events_pkey, for each in the one partition that it lies in.
const payloadsSQL = `
SELECT a.place, e.payload FROM unnest(@shards::smallint[], @ids::bigint[]) WITH ORDINALITY AS a (shard, id, place)
CROSS JOIN LATERAL (SELECT payload FROM events WHERE shard = a.shard AND id = a.id LIMIT 1) e`

// readPayloads reads those that a schema or a filter may have to see. Most events have neither.
func readPayloads(ctx context.Context, tx transaction, drafts []*draft, endpoints candidates, schemas *subscriptions.Schemas) error {
	var asked []*draft
	var shards []int16
	var ids []int64
	filters := map[id.ID]bool{}
	for tenant, all := range endpoints {
		for _, c := range all {
			filters[tenant] = filters[tenant] || c.Filter != nil
		}
	}
	for _, d := range drafts {
		if filters[d.tenant] || schemas.Asks(d.items[0].Type) {
			asked, shards, ids = append(asked, d), append(shards, d.tenant.Shard), append(ids, d.events[0].n)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	b := tx.batch()
	b.Queue(payloadsSQL, pgx.StrictNamedArgs{"shards": shards, "ids": ids}).Query(func(rows pgx.Rows) error {
		var place int
		var payload []byte
		_, err := pgx.ForEachRow(rows, []any{&place, &payload}, func() error {
			asked[place-1].items[0].Payload, payload = payload, nil
			return nil
		})
		return err //nolint:wrapcheck // wrapped where the batch is sent
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("read what schemas and filters look at: %w", err)
	}
	return nil
}
