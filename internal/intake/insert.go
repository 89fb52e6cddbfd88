package intake

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

// commit writes requests of any tenants in one transaction and wakes whoever sends. The error is about all of them; what
// is wrong with one is in its verdict. patience bounds the wait for another transaction that has one of the keys.
func (i *Intake) commit(ctx context.Context, reqs []*request, patience time.Duration) ([]verdict, error) {
	var verdicts []verdict
	var deliveries []dispatcher.NewDelivery
	var made int
	ctx, stored := i.storing(ctx, reqs)
	err := pg.InTx(ctx, rides{i.db}, func(tx pgx.Tx) error {
		r, _ := tx.(*ride) // what rides begin
		var err error
		verdicts, deliveries, made, err = i.insert(ctx, r, reqs, i.now(), patience)
		return err
	})
	stored(err)
	if err != nil {
		return nil, err
	}
	if len(deliveries) > 0 {
		i.wake(deliveries)
	}
	i.accepted(made)
	return verdicts, nil
}

// insert is the walk of all requests through the transaction, four stages for all of them together, which are two round
// trips unless some keys were used before. No two of the requests may share an idempotency key or a uid: the queue sees to
// that. deliveries are those that it makes, made is how many events are new.
//
// Each of its statements is for all buckets of the group at once: what costs is statements, not rows (docs/decisions/0018).
func (i *Intake) insert(ctx context.Context, tx transaction, reqs []*request, now time.Time, patience time.Duration) (_ []verdict, deliveries []dispatcher.NewDelivery, made int, err error) {
	drafts := make([]*draft, len(reqs))
	for n, r := range reqs {
		drafts[n] = i.draft(r)
	}
	sorted := inOrder(drafts)
	endpoints, err := i.admit(ctx, tx, sorted, now, patience)
	if err != nil {
		return nil, nil, 0, err
	}
	if err := recall(ctx, tx, sorted, now); err != nil {
		return nil, nil, 0, err
	}
	for _, d := range drafts {
		d.route(endpoints[d.tenant], &i.filters)
	}
	deliveries, err = i.write(ctx, tx, sorted, now)
	if err != nil {
		return nil, nil, 0, err
	}
	verdicts := make([]verdict, len(drafts))
	for n, d := range drafts {
		verdicts[n] = d.conclude()
		made += d.made()
	}
	return verdicts, deliveries, made, nil
}

// inOrder sorts by bucket and tenant, in one order for all transactions, so that two of them cannot wait for each other.
// Those of one tenant stay as they came.
func inOrder(drafts []*draft) []*draft {
	return slices.SortedStableFunc(slices.Values(drafts), func(a, b *draft) int { return a.tenant.Compare(b.tenant) })
}

// Uses the primary key of tenants. It takes no lock: deliveries of a tenant that is deleted at this very moment are
// found and cancelled by the sweep of closed endpoints.
const tenantsSQL = `
SELECT t.shard, t.id, t.uid FROM unnest(@shards::smallint[], @tenants::bigint[]) AS asked (shard, id)
 CROSS JOIN LATERAL (
    SELECT shard, id, uid FROM tenants WHERE shard = asked.shard AND id = asked.id AND deleted_at IS NULL LIMIT 1) t`

// admit finds out which tenants are there, claims the idempotency keys, reads the tenants' endpoints, and has the ids of
// deliveries be above those that wait in the same groups, in one round trip. The endpoints come after the wait for a key:
// one that was registered before the request came is seen.
func (i *Intake) admit(ctx context.Context, tx transaction, drafts []*draft, now time.Time, patience time.Duration) (candidates, error) {
	b := tx.batch()
	pg.PlanByIndex(b)
	tenants := tenantsOf(drafts)
	there := make(map[id.ID]*string, len(tenants)) // and its uid
	queueTenants(b, tenants, there)
	queueClaims(b, drafts, now, patience)
	endpoints := make(candidates, len(tenants))
	subscriptions.QueueCandidates(b, tenants, func(tenant id.ID, c []subscriptions.Candidate) { endpoints[tenant] = c })
	queueNewest(b, drafts, i.ids.Above)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("claim idempotency keys: %w", err)
	}
	for _, d := range drafts {
		uid, found := there[d.tenant]
		if !found || d.tenantUID != "" && (uid == nil || *uid != d.tenantUID) {
			d.err = fault.New(fault.NotFound, "no such tenant")
		}
	}
	return endpoints, nil
}

func queueTenants(b *pgx.Batch, asked []id.ID, there map[id.ID]*string) {
	shards, tenants := make([]int16, len(asked)), make([]int64, len(asked))
	for n, t := range asked {
		shards[n], tenants[n] = t.Shard, t.N
	}
	b.Queue(tenantsSQL, pgx.StrictNamedArgs{"shards": shards, "tenants": tenants}).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var tenant id.ID
			var uid *string
			if err := rows.Scan(&tenant.Shard, &tenant.N, &uid); err != nil {
				return err //nolint:wrapcheck // wrapped where the batch is sent
			}
			there[tenant] = uid
		}
		return rows.Err() //nolint:wrapcheck // as above
	})
}

// tenantsOf names the tenants of drafts in order, each once.
func tenantsOf(sorted []*draft) []id.ID {
	var tenants []id.ID
	for _, d := range sorted {
		if n := len(tenants); n == 0 || tenants[n-1] != d.tenant {
			tenants = append(tenants, d.tenant)
		}
	}
	return tenants
}
