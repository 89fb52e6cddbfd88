package intake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// commit writes requests of any tenants in one transaction and wakes whoever sends. The error is about all of them; what
// is wrong with one is in its verdict. patience bounds the wait for another transaction that has one of the keys.
func (i *Intake) commit(ctx context.Context, reqs []*request, patience time.Duration) ([]verdict, error) {
	var verdicts []verdict
	var due []int16
	var made int
	err := pg.InTx(ctx, i.db, func(tx pgx.Tx) error {
		var err error
		verdicts, due, made, err = i.insert(ctx, tx, reqs, i.now(), patience)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, shard := range due {
		i.wake(shard)
	}
	i.accepted(made)
	return verdicts, nil
}

// insert is the walk of all requests through the transaction, four stages for all of them together. No two of the
// requests may share an idempotency key or a uid: the queue sees to that. due names the buckets that have something to
// send now, made is how many events are new.
func (i *Intake) insert(ctx context.Context, tx pgx.Tx, reqs []*request, now time.Time, patience time.Duration) (_ []verdict, due []int16, made int, err error) {
	drafts := make([]*draft, len(reqs))
	for n, r := range reqs {
		drafts[n] = i.draft(r)
	}
	buckets := inBuckets(drafts)
	if err := admit(ctx, tx, buckets, now, patience); err != nil {
		return nil, nil, 0, err
	}
	if err := recall(ctx, tx, buckets, now); err != nil {
		return nil, nil, 0, err
	}
	if err := fanOut(ctx, tx, drafts); err != nil {
		return nil, nil, 0, err
	}
	due, err = i.write(ctx, tx, buckets, now)
	if err != nil {
		return nil, nil, 0, err
	}
	verdicts := make([]verdict, len(drafts))
	for n, d := range drafts {
		verdicts[n] = d.conclude()
		made += d.made()
	}
	return verdicts, due, made, nil
}

// bucket holds the drafts of one bucket: a statement never touches two.
type bucket struct {
	shard  int16
	drafts []*draft
}

// inBuckets groups by bucket, in one order for all transactions, so that two of them cannot wait for each other.
func inBuckets(drafts []*draft) []bucket {
	var buckets []bucket
	sorted := slices.SortedStableFunc(slices.Values(drafts), func(a, b *draft) int {
		return cmp.Compare(a.tenant.Shard, b.tenant.Shard)
	})
	for _, d := range sorted {
		if last := len(buckets) - 1; last >= 0 && buckets[last].shard == d.tenant.Shard {
			buckets[last].drafts = append(buckets[last].drafts, d)
			continue
		}
		buckets = append(buckets, bucket{shard: d.tenant.Shard, drafts: []*draft{d}})
	}
	return buckets
}

// Uses the primary key of tenants. It takes no lock: deliveries of a tenant that is deleted at this very moment are
// found and cancelled by the sweep of closed endpoints.
const tenantsSQL = `SELECT id FROM tenants WHERE shard = @shard AND id = ANY(@tenants::bigint[]) AND deleted_at IS NULL`

// admit finds out which tenants are there and claims the idempotency keys, in one round trip.
func admit(ctx context.Context, tx pgx.Tx, buckets []bucket, now time.Time, patience time.Duration) error {
	b := &pgx.Batch{}
	there := map[id.ID]bool{}
	for _, bu := range buckets {
		b.Queue(tenantsSQL, pgx.StrictNamedArgs{"shard": bu.shard, "tenants": tenantsOf(bu.drafts)}).
			Query(func(rows pgx.Rows) error {
				tenant := id.ID{Shard: bu.shard}
				_, err := pgx.ForEachRow(rows, []any{&tenant.N}, func() error {
					there[tenant] = true
					return nil
				})
				return err
			})
	}
	queueClaims(b, buckets, now, patience)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("claim idempotency keys: %w", err)
	}
	for _, bu := range buckets {
		for _, d := range bu.drafts {
			if !there[d.tenant] {
				d.err = fault.New(fault.NotFound, "no such tenant")
			}
		}
	}
	return nil
}

func tenantsOf(drafts []*draft) []int64 {
	var tenants []int64
	for _, d := range drafts {
		tenants = append(tenants, d.tenant.N)
	}
	slices.Sort(tenants)
	return slices.Compact(tenants)
}
