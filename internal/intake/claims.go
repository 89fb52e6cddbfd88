package intake

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
)

// The kinds of idempotency rows.
const (
	kindKey = "key" // an Idempotency-Key: stands for all events of its request
	kindUID = "uid" // an event's own uid
)

// keyRef names an idempotency row.
type keyRef struct {
	tenant    id.ID
	kind, key string
}

func (k keyRef) compare(o keyRef) int {
	return cmp.Or(k.tenant.Compare(o.tenant), strings.Compare(k.kind, o.kind), strings.Compare(k.key, o.key))
}

// claim is an idempotency row that a request wants to make.
type claim struct {
	keyRef
	digest digest
	item   int // of a uid
	won    bool
}

// claims lists the idempotency rows of a request, that of its key first.
func (r *request) claims() []*claim {
	var claims []*claim
	if r.key != "" {
		claims = append(claims, &claim{keyRef: keyRef{r.tenant, kindKey, r.key}, digest: r.digest})
	}
	for n := range r.items {
		if it := &r.items[n]; it.UID != "" && it.same == n {
			claims = append(claims, &claim{keyRef: keyRef{r.tenant, kindUID, it.UID}, digest: it.digest, item: n})
		}
	}
	return claims
}

// ids are the events that a claim stands for.
func (d *draft) ids(c *claim) []int64 {
	if c.kind == kindUID {
		return []int64{d.events[c.item].n}
	}
	ids := make([]int64, len(d.events))
	for n := range d.events {
		ids[n] = d.events[d.items[n].same].n
	}
	return ids
}

// Whoever comes second waits here for the first one's commit or rollback (ON CONFLICT waits on the unique index, the
// primary key) and then either knows that it lost or has won after all. The rows come in one order for everybody, so
// nobody waits in a circle. event_ids comes as an array's text: arrays of different lengths do not fit into one.
const claimSQL = `
INSERT INTO idempotency_keys (shard, tenant_id, kind, key, digest, event_ids, created_at)
SELECT c.shard, c.tenant_id, c.kind, c.key, c.digest, c.event_ids::bigint[], @now
FROM unnest(@shards::smallint[], @tenants::bigint[], @kinds::text[], @keys::text[], @digests::bytea[], @event_ids::text[])
    AS c (shard, tenant_id, kind, key, digest, event_ids)
ON CONFLICT DO NOTHING
RETURNING shard, tenant_id, kind, key`

// Only the wait for a key is bounded so closely: another's long transaction may hold it.
const (
	patienceSQL   = `SELECT set_config('lock_timeout', @patience, true)`
	noPatienceSQL = `SET LOCAL lock_timeout TO DEFAULT`
)

func queueClaims(b *pgx.Batch, drafts []*draft, now time.Time, patience time.Duration) {
	claims := map[keyRef]*claim{}
	args, some := claimArgs(drafts, now, claims)
	if !some {
		return
	}
	b.Queue(patienceSQL, pgx.StrictNamedArgs{"patience": strconv.FormatInt(patience.Milliseconds(), 10)})
	b.Queue(claimSQL, args).Query(func(rows pgx.Rows) error {
		var won keyRef
		_, err := pgx.ForEachRow(rows, []any{&won.tenant.Shard, &won.tenant.N, &won.kind, &won.key}, func() error {
			claims[won].won = true
			return nil
		})
		return err
	})
	b.Queue(noPatienceSQL)
}

func claimArgs(drafts []*draft, now time.Time, claims map[keyRef]*claim) (_ pgx.StrictNamedArgs, some bool) {
	type owned struct {
		*claim
		by *draft
	}
	var all []owned
	for _, d := range drafts {
		for _, c := range d.claims {
			all = append(all, owned{c, d})
			claims[c.keyRef] = c
		}
	}
	slices.SortFunc(all, func(a, b owned) int { return a.compare(b.keyRef) })
	shards, tenants := make([]int16, len(all)), make([]int64, len(all))
	kinds, keys := make([]string, len(all)), make([]string, len(all))
	digests, ids := make([][]byte, len(all)), make([]string, len(all))
	for n, c := range all {
		shards[n], tenants[n], kinds[n], keys[n], digests[n] = c.tenant.Shard, c.tenant.N, c.kind, c.key, c.digest[:]
		ids[n] = arrayText(c.by.ids(c.claim))
	}
	return pgx.StrictNamedArgs{
		"shards": shards, "now": now, "tenants": tenants, "kinds": kinds, "keys": keys, "digests": digests, "event_ids": ids,
	}, len(all) > 0
}

// arrayText spells a bigint[].
func arrayText(ids []int64) string {
	b := []byte{'{'}
	for n, v := range ids {
		if n > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, v, 10)
	}
	return string(append(b, '}'))
}

// Both use the primary key.
const (
	dropClaimSQL = `
DELETE FROM idempotency_keys WHERE shard = @shard AND tenant_id = @tenant AND kind = @kind AND key = @key`
	correctClaimSQL = `
UPDATE idempotency_keys SET event_ids = @ids WHERE shard = @shard AND tenant_id = @tenant AND kind = @kind AND key = @key`
)

// queueCorrections takes back the rows of a request that came to nothing, and has the row of a new key name the events
// that its uids repeat. Both are rare.
func queueCorrections(b *pgx.Batch, d *draft) {
	for _, c := range d.claims {
		args := pgx.StrictNamedArgs{"shard": c.tenant.Shard, "tenant": c.tenant.N, "kind": c.kind, "key": c.key}
		switch {
		case !c.won:
		case d.err != nil || d.replayed:
			b.Queue(dropClaimSQL, args)
		case c.kind == kindKey && d.repeatsSome():
			args["ids"] = d.ids(c)
			b.Queue(correctClaimSQL, args)
		}
	}
}
