package intake

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
)

// Deliveries to an endpoint with ordering go one after the other within their group, in the order of their ids. That is
// the order of acceptance because ids grow, because the events of a request keep their order, and because events of one
// group_key are never in two transactions of this process at once: the one with the greater ids might be committed first.
//
// Ids of two processes grow apart: within a millisecond the node decides, and their clocks differ a little. So a
// transaction makes its deliveries' ids above the newest that it finds unfinished in their groups, whoever made that: all
// that was committed before it began. What is finished needs no order any more.
//
// Of two processes that accept events of one group at the very same moment, neither is told which was the first. Whoever
// cares waits for the first answer, and may then ask any of them.

// groupRef names a group of events within this process.
type groupRef struct {
	tenant id.ID
	key    string
}

// groups names those of a request, each once. It does not matter whether an endpoint with ordering is there: that shows
// only in the transaction, and to keep one group together costs the others nothing.
func (r *request) groups() []groupRef {
	var groups []groupRef
	var seen map[string]bool
	for n := range r.items {
		key := r.items[n].GroupKey
		if key == "" || n > 0 && key == r.items[n-1].GroupKey || seen[key] {
			continue
		}
		if len(r.items) > 1 {
			if seen == nil {
				seen = map[string]bool{}
			}
			seen[key] = true
		}
		groups = append(groups, groupRef{r.tenant, key})
	}
	return groups
}

// group is the number of the group that a delivery waits in: none without ordering, and one of its own without a group
// key.
func (t target) group(key string, delivery int64) int64 {
	switch {
	case !t.ordered:
		return 0
	case key == "":
		return delivery
	}
	return groupNumber(key)
}

// groupNumber is what the database keeps of a group key: the first 8 bytes of its SHA-256, most significant first. Two
// keys that share a number, one in 2^64, would only wait for each other. It must never change: what waits already has
// its number. 0 stands for no group.
func groupNumber(key string) int64 {
	sum := sha256.Sum256([]byte(key))
	n := int64(binary.BigEndian.Uint64(sum[:])) //nolint:gosec // any number does
	if n == 0 {
		return 1
	}
	return n
}

// newestSQL gives the newest unfinished delivery of each group at each of its tenant's endpoints with ordering. A tenant's
// groups are a slice of the array of all, so that its endpoints are looked up once (endpoints_by_tenant), for most tenants
// have none with ordering; then it is one probe for each (deliveries_in_group, whose spelling of the bucket this has to be).
const newestSQL = `
SELECT n.id
  FROM unnest(@shards::smallint[], @tenants::bigint[], @froms::integer[], @counts::integer[])
    AS t (shard, tenant_id, group_from, group_count)
 CROSS JOIN LATERAL (
    SELECT shard, id FROM endpoints
     WHERE shard = t.shard AND tenant_id = t.tenant_id AND deleted_at IS NULL AND ordering = 'group' ORDER BY id) o
 CROSS JOIN LATERAL unnest((@groups::bigint[])[t.group_from : t.group_from + t.group_count - 1]) AS g (group_id)
 CROSS JOIN LATERAL (
    SELECT d.id FROM deliveries d
     WHERE d.shard::bigint = o.shard AND d.endpoint_id = o.id AND d.group_id = g.group_id
     ORDER BY d.id DESC LIMIT 1) n`

// queueNewest tells above the newest ids of the groups that the drafts, which are in order, have events of. It has to come
// after the claims: whoever waited for a key comes behind the one that had it.
func queueNewest(b *pgx.Batch, drafts []*draft, above func(delivery int64)) {
	var shards []int16
	var tenants, groups []int64
	var of parts
	seen := map[groupRef]bool{}
	for n := 0; n < len(drafts); {
		tenant, before := drafts[n].tenant, len(groups)
		for ; n < len(drafts) && drafts[n].tenant == tenant; n++ {
			for _, g := range drafts[n].groups() {
				if !seen[g] {
					seen[g] = true
					groups = append(groups, groupNumber(g.key))
				}
			}
		}
		if some := len(groups) - before; some > 0 {
			shards, tenants = append(shards, tenant.Shard), append(tenants, tenant.N)
			of.add(some)
		}
	}
	if len(groups) == 0 {
		return
	}
	b.Queue(newestSQL, pgx.StrictNamedArgs{
		"shards": shards, "tenants": tenants, "froms": of.from, "counts": of.size, "groups": groups,
	}).Query(func(rows pgx.Rows) error {
		var newest int64
		_, err := pgx.ForEachRow(rows, []any{&newest}, func() error {
			above(newest)
			return nil
		})
		return err
	})
}
