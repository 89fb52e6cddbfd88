package dispatcher

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// NewDelivery is a delivery that comes into being.
type NewDelivery struct {
	Shard                       int16
	ID, Tenant, Event, Endpoint int64
	DueAt                       time.Time
	Pull                        bool  // its endpoint's owner fetches it: Group is 0 then
	Scheduled                   bool  // DueAt is the event's deliver_at, and still to come
	Group                       int64 // 0: none; else it goes in order with the endpoint's others of the same number
}

// lane is one of an endpoint's queues, which a claim takes turns between: the value of deliveries.lane.
type lane int16

const (
	laneFirst   lane = iota // first attempts
	laneRetry               // retries
	laneOrdered             // those that go in the order of their group, first attempts and retries alike
	laneSuspect             // those that were lost with their process again and again, in a group or not
	laneCount               // how many lanes dispatchers claim from

	lanePull = laneCount // what is not sent but fetched, first attempts and others alike: all that an endpoint of kind pull has
)

// enqueueSQL writes deliveries_pkey and deliveries_due, and deliveries_in_group for those with a group. It is for any
// buckets at once: what costs here is statements, not rows. The state's literals are cast by themselves, for a cast of
// what CASE gives would be made for each row.
const enqueueSQL = `
INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, next_retry_at, group_id, lane)
SELECT n.shard, n.id, n.tenant_id, n.event_id, n.endpoint_id,
       CASE WHEN n.scheduled THEN 'scheduled'::delivery_state ELSE 'pending'::delivery_state END, n.due_at, n.group_id,
       CASE WHEN n.group_id IS NOT NULL THEN @ordered::smallint WHEN n.pull THEN @pull::smallint ELSE @first::smallint END
  FROM unnest(@shards::smallint[], @ids::bigint[], @tenants::bigint[], @events::bigint[], @endpoints::bigint[],
              @dues::timestamptz[], @scheduled::boolean[], @groups::bigint[], @pulls::boolean[])
    AS n(shard, id, tenant_id, event_id, endpoint_id, due_at, scheduled, group_id, pull)`

// QueueNew queues the statement that makes deliveries, of any buckets, in the transaction of whoever accepts their events.
func QueueNew(b *pgx.Batch, news []NewDelivery) {
	if len(news) == 0 {
		return
	}
	n := len(news)
	shards, ids, tenants, events := make([]int16, n), make([]int64, n), make([]int64, n), make([]int64, n)
	endpoints, dues, scheduled := make([]int64, n), make([]time.Time, n), make([]bool, n)
	// NULL as a whole, which unnest takes for a NULL in each row, while none has any:
	var groups []*int64
	var pulls []bool
	for i := range news {
		d := &news[i]
		shards[i], ids[i], tenants[i], events[i] = d.Shard, d.ID, d.Tenant, d.Event
		endpoints[i], dues[i], scheduled[i] = d.Endpoint, d.DueAt, d.Scheduled
		if d.Group != 0 {
			if groups == nil {
				groups = make([]*int64, n)
			}
			groups[i] = &d.Group
		}
		if d.Pull {
			if pulls == nil {
				pulls = make([]bool, n)
			}
			pulls[i] = true
		}
	}
	b.Queue(enqueueSQL, pgx.StrictNamedArgs{
		"shards": shards, "ids": ids, "tenants": tenants, "events": events, "endpoints": endpoints, "dues": dues,
		"scheduled": scheduled, "groups": groups, "pulls": pulls, "first": laneFirst, "ordered": laneOrdered, "pull": lanePull,
	})
}
