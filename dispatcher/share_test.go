package dispatcher

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"github.com/postrider/postrider/internal/id"
)

// wanting is an endpoint in a table about sharing.
type wanting struct {
	tenant int64
	slots  int // that its window leaves it
	due    [laneCount]bool
}

var (
	firstsDue  = [laneCount]bool{laneFirst: true}
	retriesDue = [laneCount]bool{laneRetry: true}
	bothDue    = [laneCount]bool{laneFirst: true, laneRetry: true}
	groupsDue  = [laneCount]bool{laneOrdered: true}
)

// same gives n endpoints alike, of as many tenants as stated.
func same(n int, tenants int64, slots int, due [laneCount]bool) []wanting {
	out := make([]wanting, n)
	for i := range out {
		out[i] = wanting{int64(i)%tenants + 1, slots, due}
	}
	return out
}

// shareOut runs one round of sharing over endpoints 1, 2, … and gives what each gets, by lane.
func shareOut(r *roads, room, free, most int, wants []wanting) [][laneCount]int {
	s := newSharing(r, room, free, most)
	for i, w := range wants {
		if s.room > 0 {
			s.give(dueRoad{endpoint: id.ID{N: int64(i + 1)}, due: w.due, likely: unknown}, w.tenant, pass{slots: w.slots})
		}
	}
	s.giveRest()
	plain, ordered := s.wishes(r)
	out := make([][laneCount]int, len(wants))
	for _, wishes := range []map[int16][]wish{plain, ordered} {
		for _, w := range wishes[0] {
			out[w.endpoint-1][w.lane] += w.slots
		}
	}
	return out
}

func sum(got [laneCount]int) int { return got[laneFirst] + got[laneRetry] + got[laneOrdered] }

func total(got [][laneCount]int) (n int) {
	for _, g := range got {
		n += sum(g)
	}
	return n
}

func TestSharing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		room, free, most int
		inFlight         map[int64]int // by tenant
		retries          int           // in flight
		wants            []wanting
		want             [][laneCount]int
	}{
		"each has its least share while others wait": {
			room: 40, free: 100, most: 100, wants: same(4, 4, 100, firstsDue),
			want: [][laneCount]int{{16}, {16}, {8}, {}},
		},
		"what nobody else wants goes to whoever does": {
			room: 50, free: 100, most: 100,
			wants: []wanting{{1, 3, firstsDue}, {2, 100, firstsDue}, {3, 1, firstsDue}},
			want:  [][laneCount]int{{3}, {46}, {1}},
		},
		"a full window gets nothing": {
			room: 50, free: 100, most: 100, wants: []wanting{{1, 0, firstsDue}, {2, -3, firstsDue}, {3, 5, firstsDue}},
			want: [][laneCount]int{{}, {}, {5}},
		},
		"a tenant alone leaves a ninth": {
			room: 100, free: 100, most: 100, wants: same(1, 1, 1000, firstsDue), want: [][laneCount]int{{89}},
		},
		"a tenant alone leaves a ninth, over many endpoints": {
			room: 90, free: 90, most: 90, wants: same(10, 1, 8, firstsDue),
			want: [][laneCount]int{{8}, {8}, {8}, {8}, {8}, {8}, {8}, {8}, {8}, {8}},
		},
		"a tenant with too much gets nothing, a new one its share": {
			room: 10, free: 10, most: 100, inFlight: map[int64]int{1: 90},
			wants: []wanting{{1, 50, firstsDue}, {2, 50, firstsDue}}, want: [][laneCount]int{{}, {9}},
		},
		"one slot": {room: 1, free: 1, most: 1, wants: same(2, 2, 10, firstsDue), want: [][laneCount]int{{1}, {}}},
		"the last of two slots": {
			room: 1, free: 1, most: 2, inFlight: map[int64]int{1: 1}, wants: same(1, 1, 10, firstsDue), want: [][laneCount]int{{1}},
		},
		"four slots are all used": {room: 4, free: 4, most: 4, wants: same(1, 1, 10, firstsDue), want: [][laneCount]int{{4}}},
		"the last of four slots": {
			room: 1, free: 1, most: 4, inFlight: map[int64]int{1: 3}, wants: same(1, 1, 10, firstsDue), want: [][laneCount]int{{1}},
		},
		"no room": {room: 0, free: 0, most: 4, wants: same(1, 1, 10, firstsDue), want: [][laneCount]int{{}}},
		"retries are sure of a quarter": {
			room: 16, free: 100, most: 100, wants: same(1, 1, 16, bothDue), want: [][laneCount]int{{12, 4}},
		},
		"retries alone have it all": {
			room: 16, free: 100, most: 100, wants: same(1, 1, 16, retriesDue), want: [][laneCount]int{{0, 16}},
		},
		"retries leave a quarter of all slots": {
			room: 100, free: 100, most: 100, wants: same(1, 1, 100, retriesDue), want: [][laneCount]int{{0, 75}},
		},
		"retries leave it for first attempts behind them in the round": {
			room: 64, free: 90, most: 64, wants: append(same(4, 4, 16, retriesDue), wanting{5, 16, firstsDue}),
			want: [][laneCount]int{{0, 16}, {0, 16}, {0, 16}, {}, {16}},
		},
		"retries in flight count": {
			room: 30, free: 30, most: 100, retries: 70, wants: same(2, 2, 100, retriesDue), want: [][laneCount]int{{0, 5}, {}},
		},
		"with too many retries in flight first attempts have it all": {
			room: 20, free: 20, most: 100, retries: 80, wants: same(1, 1, 16, bothDue), want: [][laneCount]int{{16}},
		},
		"retries with one slot": {room: 1, free: 1, most: 1, wants: same(1, 1, 1, retriesDue), want: [][laneCount]int{{0, 1}}},
		"retries with four slots": {
			room: 4, free: 4, most: 4, wants: same(1, 1, 4, retriesDue), want: [][laneCount]int{{0, 3}},
		},
		"groups": {room: 4, free: 4, most: 4, wants: same(1, 1, 4, groupsDue), want: [][laneCount]int{{0, 0, 4}}},
		"groups and first": {
			room: 8, free: 9, most: 9, wants: same(1, 1, 8, [laneCount]bool{laneFirst: true, laneOrdered: true}),
			want: [][laneCount]int{{4, 0, 4}},
		},
	} {
		r := newRoads()
		for tenant, n := range c.inFlight {
			r.tenants[tenant] = n
		}
		r.retries = c.retries
		if got := shareOut(r, c.room, c.free, c.most, c.wants); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Whatever is due to whom, a round keeps its promises.
func TestSharingKeepsItsPromises(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		most := 1 + dice.IntN(200)
		free := dice.IntN(most + 1)
		room := min(free, 1+dice.IntN(100))
		r := newRoads()
		for left := most - free; left > 0; {
			n := 1 + dice.IntN(left)
			r.tenants[int64(1+dice.IntN(4))] += n
			left -= n
		}
		r.retries = dice.IntN(most - free + 1)
		wants := make([]wanting, 1+dice.IntN(20))
		for i := range wants {
			wants[i] = wanting{int64(1 + dice.IntN(4)), dice.IntN(40) - 4, [laneCount]bool{}}
			for wants[i].due == [laneCount]bool{} {
				wants[i].due = [laneCount]bool{dice.IntN(2) == 0, dice.IntN(2) == 0, dice.IntN(3) == 0}
			}
		}
		before, retries := r.tenants, 0
		got := shareOut(r, room, free, most, wants)
		byTenant := map[int64]int{}
		for i, g := range got {
			if min(g[0], g[1], g[2]) < 0 || sum(g) > max(wants[i].slots, 0) {
				t.Errorf("an endpoint with %d slots gets %v", wants[i].slots, g)
			}
			for in, n := range g {
				if n > 0 && !wants[i].due[in] {
					t.Errorf("%d of a lane with nothing due: %v of %v", n, g, wants[i].due)
				}
			}
			byTenant[wants[i].tenant] += sum(g)
			retries += g[laneRetry]
		}
		if total(got) > room {
			t.Errorf("%d given of %d", total(got), room)
		}
		if retries > 0 && r.retries+retries > max(most-most/retryPart, 1) {
			t.Errorf("%d retries of %d slots", r.retries+retries, most)
		}
		for tenant, n := range byTenant {
			if n > 0 && before[tenant]+n-1 >= tenantShare*(free-n+1) {
				t.Errorf("tenant %d has %d, and leaves %d", tenant, before[tenant]+n, free-n)
			}
		}
		for i, g := range got {
			for j, other := range got {
				waits := wants[j].tenant == wants[i].tenant && sum(other) < min(wants[j].slots, leastShare) &&
					(wants[j].due[laneFirst] || wants[j].due[laneOrdered])
				if waits && sum(g) > leastShare {
					t.Errorf("endpoint %d gets %v while %d of its tenant, with %d slots, gets %v", i, g, j, wants[j].slots, other)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("room %d, free %d, most %d, tenants %v, retries %d, wants %v: %v", room, free, most, before, r.retries, wants, got)
		}
	}
}

// With one slot each lane comes once in a while.
func TestOneSlotIsSharedInTurns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		due  [laneCount]bool
		want [laneCount]int
	}{
		"retries":        {bothDue, [laneCount]int{9, 3, 0}},
		"groups":         {[laneCount]bool{laneFirst: true, laneOrdered: true}, [laneCount]int{6, 0, 6}},
		"all three":      {[laneCount]bool{true, true, true}, [laneCount]int{6, 3, 3}},
		"groups, retry":  {[laneCount]bool{laneRetry: true, laneOrdered: true}, [laneCount]int{0, 3, 9}},
		"retries, alone": {retriesDue, [laneCount]int{0, 12, 0}},
	} {
		r := newRoads()
		var got [laneCount]int
		for range 12 {
			for in, n := range shareOut(r, 1, 10, 10, []wanting{{1, 1, c.due}})[0] {
				got[in] += n
			}
		}
		if got != c.want {
			t.Errorf("%s: %v in twelve rounds, want %v", name, got, c.want)
		}
	}
}

// With more endpoints than room the next round begins behind the last one.
func TestRoundsTakeTurns(t *testing.T) {
	t.Parallel()
	var heard []string
	w := newWorld(t, func(r *http.Request) (*http.Response, error) {
		heard = append(heard, posted(r))
		return reply(200, nil, "")
	})
	w.d.cfg.MaxInFlight = 1
	var want []string
	endpoints := []id.ID{w.endpoint(), w.endpoint(), w.endpoint()}
	slices.SortFunc(endpoints, id.ID.Compare)
	for range 2 {
		for _, e := range endpoints {
			want = append(want, id.Delivery.Format(w.enqueue(e, `{}`)))
		}
	}
	for range want {
		if n := w.round(w.d); n != 1 {
			t.Fatalf("%d at once", n)
		}
	}
	if !slices.Equal(heard, want) {
		t.Errorf("heard %v, want %v", heard, want)
	}
}

// An endpoint with a long backlog leaves the others their part of the slots, and of its own tenant's.
func TestBacklogLeavesOthersTheirShare(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := newWorld(t, g.Do)
	w.d.cfg.MaxInFlight, w.d.cfg.MaxInFlightPerEndpoint = 40, 100
	greedy := w.endpoint()
	for range 60 {
		w.enqueue(greedy, `{}`)
	}
	claim := func() int {
		t.Helper()
		n, err := w.d.claimOnce(t.Context(), t.Context(), allShards)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := claim(); n != startWindow {
		t.Errorf("%d go out before anything is known of the endpoint", n)
	}
	modest := w.endpoint()
	for range 3 {
		w.enqueue(modest, `{}`)
	}
	if n := claim(); n != 3 {
		t.Errorf("%d of another endpoint's three go out beside a backlog", n)
	}
	for range startWindow + 3 {
		g.answer <- 200
	}
	w.settle(w.d)
	w.d.deps.Doer = always(200)
	for w.round(w.d) > 0 {
	}
	if n := w.count(`SELECT count(*) FROM deliveries_finished WHERE state = 'succeeded'`); n != 63 {
		t.Errorf("%d of 63 arrived", n)
	}
}
