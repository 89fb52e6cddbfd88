package dispatcher

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// NewDelivery is a delivery that comes into being.
type NewDelivery struct {
	ID, Tenant, Event, Endpoint int64
	DueAt                       time.Time
	Scheduled                   bool // DueAt is the event's deliver_at, and still to come
}

// enqueueSQL writes deliveries_pkey, deliveries_due and deliveries_by_event.
const enqueueSQL = `
INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, next_retry_at)
SELECT @shard, n.id, n.tenant_id, n.event_id, n.endpoint_id,
       CASE WHEN n.scheduled THEN 'scheduled' ELSE 'pending' END::delivery_state, n.due_at
  FROM unnest(@ids::bigint[], @tenants::bigint[], @events::bigint[], @endpoints::bigint[], @dues::timestamptz[],
              @scheduled::boolean[]) AS n(id, tenant_id, event_id, endpoint_id, due_at, scheduled)`

// QueueNew queues the statement that makes deliveries of one bucket, in the transaction of whoever accepts their events.
func QueueNew(b *pgx.Batch, shard int16, news []NewDelivery) {
	if len(news) == 0 {
		return
	}
	n := len(news)
	ids, tenants, events := make([]int64, n), make([]int64, n), make([]int64, n)
	endpoints, dues, scheduled := make([]int64, n), make([]time.Time, n), make([]bool, n)
	for i, d := range news {
		ids[i], tenants[i], events[i], endpoints[i] = d.ID, d.Tenant, d.Event, d.Endpoint
		dues[i], scheduled[i] = d.DueAt, d.Scheduled
	}
	b.Queue(enqueueSQL, pgx.StrictNamedArgs{
		"shard": shard, "ids": ids, "tenants": tenants, "events": events, "endpoints": endpoints, "dues": dues,
		"scheduled": scheduled,
	})
}
