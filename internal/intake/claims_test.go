package intake

import (
	"reflect"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
)

// Two transactions that claim the same keys in different orders would wait for each other. PostgreSQL breaks that up and
// the loser is run again, so nothing but the order itself shows that it is right.
func TestClaimsComeInOneOrder(t *testing.T) {
	t.Parallel()
	i := &Intake{ids: id.NewGenerator(1, time.Now)}
	a, b := id.ID{Shard: 1, N: 1}, id.ID{Shard: 1, N: 2}
	draftOf := func(tenant id.ID, key string, uids ...string) *draft {
		r := &request{tenant: tenant, key: key}
		for n, uid := range uids {
			r.items = append(r.items, item{Event: Event{UID: uid}, same: n})
		}
		return i.draft(r)
	}
	x, y := draftOf(b, "k1", "u2", "u1"), draftOf(a, "k3")
	z := draftOf(a, "k2", "u9", "", "k0")
	for _, drafts := range [][]*draft{{x, y, z}, {z, y, x}, {y, x, z}} {
		args, some := claimArgs(bucket{shard: 1, drafts: drafts}, time.Time{}, map[keyRef]*claim{})
		if !some {
			t.Fatal("no claims")
		}
		for name, want := range map[string]any{
			"tenants": []int64{1, 1, 1, 1, 2, 2, 2},
			"kinds":   []string{"key", "key", "uid", "uid", "key", "uid", "uid"},
			"keys":    []string{"k2", "k3", "k0", "u9", "k1", "u1", "u2"},
		} {
			if !reflect.DeepEqual(args[name], want) {
				t.Errorf("%s are %v, want %v", name, args[name], want)
			}
		}
	}
	far := i.draft(&request{tenant: id.ID{Shard: 2, N: 1}})
	if got := inBuckets([]*draft{far, x, y}); len(got) != 2 || got[0].shard != 1 || got[1].shard != 2 || len(got[0].drafts) != 2 {
		t.Errorf("buckets %+v", got)
	}
}
