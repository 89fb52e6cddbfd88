package intake_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
)

type ordered struct {
	ID, Event int64
	Group     *int64
	Lane      int
}

func (d *desk) deliveriesOf(t testing.TB, endpoint int64) []ordered {
	t.Helper()
	rows, err := d.db.Query(t.Context(), `SELECT id, event_id AS event, group_id AS "group", lane FROM deliveries
		WHERE endpoint_id = $1 ORDER BY id`, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[ordered])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAnOrderingEndpointsDeliveriesHaveGroups(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	plain, inOrder := d.endpoint(t, ten, ""), d.endpoint(t, ten, "")
	d.exec(t, `UPDATE endpoints SET ordering = 'group' WHERE id = $1`, inOrder.N)
	keys := []string{"a", "b", "", "a", ""}
	var events []intake.Event
	for n, key := range keys {
		ev := order(n)
		ev.GroupKey = key
		events = append(events, ev)
	}
	rs := d.accept(t, ten, "", events...)
	for _, del := range d.deliveriesOf(t, plain.N) {
		if del.Group != nil || del.Lane != 0 {
			t.Errorf("without ordering: %+v", del)
		}
	}
	got := d.deliveriesOf(t, inOrder.N)
	if len(got) != len(keys) {
		t.Fatalf("%d deliveries", len(got))
	}
	groups := map[string]int64{}
	for n, del := range got { // by id: in the order of the batch
		if del.Event != rs[n].ID.N || del.Group == nil || del.Lane != 2 {
			t.Fatalf("delivery %d of a batch: %+v", n, del)
		}
		switch was, again := groups[keys[n]]; {
		case keys[n] == "":
			if *del.Group != del.ID {
				t.Errorf("without a group key: %+v", del)
			}
		case again && was != *del.Group:
			t.Errorf("%s: two numbers", keys[n])
		default:
			groups[keys[n]] = *del.Group
		}
	}
	if groups["a"] == groups["b"] {
		t.Errorf("two keys with one number: %v", groups)
	}
	only, err := d.AcceptTest(t.Context(), inOrder, ten, intake.Event{Type: "test"})
	if all := d.deliveriesOf(t, inOrder.N); err != nil || *all[len(keys)].Group != all[len(keys)].ID || all[len(keys)].Event != only.ID.N {
		t.Errorf("a test: %+v, %v", all, err)
	}
	d.whole(t)
}

// Whoever asks after the answer to the one before comes behind it, however many others accept in the meantime.
func TestEventsOfAGroupAreInTheOrderOfAcceptance(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	ep := d.endpoint(t, ten, "")
	d.exec(t, `UPDATE endpoints SET ordering = 'group' WHERE id = $1`, ep.N)
	const groups, callers, each = 4, 3, 20
	var mu sync.Mutex
	committed := map[string][]int64{} // in the order of the answers of one caller
	var asking sync.WaitGroup
	for n := range groups * callers {
		asking.Go(func() {
			for m := range each {
				ev := order(m)
				ev.GroupKey = fmt.Sprint(n % groups)
				rs, _, err := d.Accept(t.Context(), ten, "", []intake.Event{ev})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				caller := fmt.Sprint(n)
				committed[caller] = append(committed[caller], rs[0].ID.N)
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	for caller, ids := range committed {
		if len(ids) != each || !slices.IsSorted(ids) {
			t.Errorf("caller %s: %v", caller, ids)
		}
	}
	// A transaction with smaller ids of a group was over before the next began: rows of one group, sorted by id, have
	// their transactions in one piece each.
	if n := d.count(t, `SELECT count(*) FROM (
			SELECT group_key, min(id) AS least, max(id) AS most, xmin::text FROM events GROUP BY group_key, xmin::text) a
		JOIN (SELECT group_key, id, xmin::text FROM events) b
			ON a.group_key = b.group_key AND a.xmin <> b.xmin AND b.id BETWEEN a.least AND a.most`); n != 0 {
		t.Errorf("%d events lie within another transaction of their group", n)
	}
	d.whole(t)
}

// A producer that waits for each answer may ask one process after the other: neither the node nor a clock that is behind
// decides. Endpoints without ordering and other tenants' groups of the same name have no part in it.
func TestTwoProcessesKeepAGroupsOrder(t *testing.T) {
	t.Parallel()
	first := newDesk(t)
	second := deskOn(t, first.db, 0) // within a millisecond it comes before
	second.pass(-time.Second)
	ten := first.tenant(t)
	other := first.neighbour(t, ten)
	ep, more := first.endpoint(t, ten, ""), first.endpoint(t, ten, "", "order.paid")
	plain, others := first.endpoint(t, ten, ""), first.endpoint(t, other, "")
	first.exec(t, `UPDATE endpoints SET ordering = 'group' WHERE id <> $1`, plain.N)
	in := func(group string) intake.Event {
		ev := order(0)
		ev.GroupKey = group
		return ev
	}
	var events []int64
	for n := range 10 {
		taker := []*desk{first, second}[n%2]
		rs := taker.accept(t, ten, "", in("b"+fmt.Sprint(n)), in("a")) // the group is not the request's first
		events = append(events, rs[1].ID.N)
		if n == 4 {
			// The newest of the group is at one endpoint alone, and the others have none left.
			first.exec(t, `DELETE FROM deliveries WHERE endpoint_id = $1`, more.N)
		}
	}
	for _, e := range []int64{ep.N, more.N} {
		var got []int64
		for _, del := range first.deliveriesOf(t, e) {
			if slices.Contains(events, del.Event) {
				got = append(got, del.Event)
			}
		}
		if want := events[len(events)-len(got):]; len(got) < 5 || !slices.Equal(got, want) {
			t.Errorf("by id the deliveries are of %v, accepted were %v", got, want)
		}
	}

	third := deskOn(t, first.db, 2) // which has not seen any
	third.pass(-time.Second)
	third.accept(t, other, "", in("a"))
	if del := first.deliveriesOf(t, others.N); len(del) != 1 || !id.TimeOf(del[0].ID).Equal(third.now()) {
		t.Errorf("another tenant's: %+v", del)
	}
}

// Whichever of the groups in a transaction it is that something waits in, and whosever.
func TestEachGroupOfATransactionIsLookedAt(t *testing.T) {
	t.Parallel()
	first := newDesk(t)
	var tenants, eps []id.ID
	for range 3 {
		tenants = append(tenants, first.tenant(t))
		eps = append(eps, first.endpoint(t, tenants[len(tenants)-1], ""))
	}
	first.exec(t, `UPDATE endpoints SET ordering = 'group'`)
	for n := range 6 {
		round, group := n/2, fmt.Sprint(n, "-", n%2)
		events := []intake.Event{order(n), order(n)}
		events[0].GroupKey, events[1].GroupKey = fmt.Sprint(n, "-", 0), fmt.Sprint(n, "-", 1)
		first.pass(time.Second)
		waits := order(n)
		waits.GroupKey = group
		before := first.accept(t, tenants[round], "", waits)[0].ID.N
		late := deskOn(t, first.db, n+2) // its clock stands before all that waits
		var asking sync.WaitGroup
		late.Gather(len(tenants), func() {
			for _, ten := range tenants {
				asking.Go(func() {
					if _, _, err := late.Accept(t.Context(), ten, "", events); err != nil {
						t.Error(err)
					}
				})
			}
		})
		asking.Wait()
		all := first.deliveriesOf(t, eps[round].N)
		at := slices.IndexFunc(all, func(del ordered) bool { return del.Event == before })
		for _, del := range all[:at] {
			if *del.Group == *all[at].Group {
				t.Errorf("group %s: %+v came before %+v", group, del, all[at])
			}
		}
		if len(all) != 3*n+3-2*round { // two in each turn, and what waited
			t.Errorf("%d deliveries", len(all))
		}
	}
}

// One id that cannot be has no part in those to come.
func TestAnIDFarAheadIsNotFollowed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	ep := d.endpoint(t, ten, "")
	d.exec(t, `UPDATE endpoints SET ordering = 'group' WHERE id = $1`, ep.N)
	ev := order(0)
	ev.GroupKey = "a"
	d.accept(t, ten, "", ev)
	d.exec(t, `UPDATE deliveries SET id = $1`, id.Floor(start.AddDate(1, 0, 0)))
	d.accept(t, ten, "", ev)
	if first := d.deliveriesOf(t, ep.N)[0]; !id.TimeOf(first.ID).Equal(start) {
		t.Errorf("the next delivery is of %v", id.TimeOf(first.ID))
	}
}
