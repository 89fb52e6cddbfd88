package intake

import (
	"reflect"
	"slices"
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
	far := draftOf(id.ID{Shard: 2, N: 1}, "k0")
	for _, drafts := range [][]*draft{{far, x, y, z}, {z, y, x, far}, {y, far, x, z}} {
		args, some := claimArgs(drafts, time.Time{}, map[keyRef]*claim{})
		if !some {
			t.Fatal("no claims")
		}
		for name, want := range map[string]any{
			"shards":  []int16{1, 1, 1, 1, 1, 1, 1, 2},
			"tenants": []int64{1, 1, 1, 1, 2, 2, 2, 1},
			"kinds":   []string{"key", "key", "uid", "uid", "key", "uid", "uid", "key"},
			"keys":    []string{"k2", "k3", "k0", "u9", "k1", "u1", "u2", "k0"},
		} {
			if !reflect.DeepEqual(args[name], want) {
				t.Errorf("%s are %v, want %v", name, args[name], want)
			}
		}
	}
	if got := inOrder([]*draft{far, x, y, z}); !slices.Equal(got, []*draft{y, z, x, far}) {
		t.Errorf("in order they are %+v", got)
	}
}
