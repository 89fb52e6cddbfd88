package subscriptions

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
)

// Candidate is an endpoint that an event may go to.
type Candidate struct {
	Endpoint   int64
	UID        *string
	EventTypes []string // patterns; empty: all
	Filter     *string  // CEL; nil: none
	Status     Status
	Pull       bool // its owner fetches what waits for it
	Ordered    bool // its deliveries of one group go one after the other
}

// candidatesSQL looks each tenant up by endpoints_by_tenant, which has the endpoints in order. It is for tenants of any
// buckets at once: what costs here is statements, not rows.
const candidatesSQL = `
SELECT e.shard, e.tenant_id, e.id, e.uid, e.event_types, e.filter, e.status::text, e.kind = 'pull', e.ordering = 'group'
  FROM unnest(@shards::smallint[], @tenants::bigint[]) AS t (shard, id)
 CROSS JOIN LATERAL (
    SELECT shard, tenant_id, id, uid, event_types, filter, status, kind, ordering FROM endpoints
     WHERE shard = t.shard AND tenant_id = t.id AND deleted_at IS NULL ORDER BY id) e`

// QueueCandidates adds to b the statement that gives, for each of the tenants, all endpoints that are not deleted, oldest
// first, as the batch's transaction sees them. found hears of every tenant once, also of one that has none or is not
// there. No tenant may be named twice; no tenants queue nothing.
//
// An endpoint that changes in the meantime does not make it wait: what is sent is settled when it is sent.
func QueueCandidates(b *pgx.Batch, tenants []id.ID, found func(tenant id.ID, c []Candidate)) {
	if len(tenants) == 0 {
		return
	}
	shards, ids := make([]int16, len(tenants)), make([]int64, len(tenants))
	for n, t := range tenants {
		shards[n], ids[n] = t.Shard, t.N
	}
	b.Queue(candidatesSQL, pgx.StrictNamedArgs{"shards": shards, "tenants": ids}).Query(func(rows pgx.Rows) error {
		byTenant := make(map[id.ID][]Candidate, len(tenants))
		for rows.Next() {
			var tenant id.ID
			var c Candidate
			err := rows.Scan(&tenant.Shard, &tenant.N, &c.Endpoint, &c.UID, &c.EventTypes, &c.Filter, &c.Status, &c.Pull, &c.Ordered)
			if err != nil {
				return fmt.Errorf("read tenants' endpoints: %w", err)
			}
			byTenant[tenant] = append(byTenant[tenant], c)
		}
		if err := rows.Err(); err != nil {
			return fmt.Errorf("read tenants' endpoints: %w", err)
		}
		for _, t := range tenants {
			found(t, byTenant[t])
		}
		return nil
	})
}
