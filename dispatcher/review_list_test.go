package dispatcher_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

// archive is an office with deliveries of every kind, of several tenants and from a second to a year ago.
type archive struct {
	*office
	tenants   []id.ID
	endpoints []id.ID
	all       []dispatcher.Delivery // newest first
	events    map[id.ID]string      // uid, type and payload
	names     map[id.ID]string      // an endpoint's uid
}

func newArchive(t *testing.T) *archive {
	t.Helper()
	a := &archive{office: newOffice(t), events: map[id.ID]string{}, names: map[id.ID]string{}}
	for i := range 3 {
		ten := a.tenant()
		a.tenants = append(a.tenants, ten)
		for _, status := range []string{"enabled", "disabled"} {
			uid := fmt.Sprintf("hook-%d-%s", i, status)
			ep := a.endpoint(ten, status, uid)
			a.endpoints = append(a.endpoints, ep)
			a.names[ep] = uid
		}
	}
	kinds := []row{
		{state: "scheduled", due: time.Hour},
		{state: "scheduled", due: -time.Hour},
		{state: "pending", attempts: 1, outcome: "timeout"},
		{state: "in_flight", attempts: 1},
		{state: "succeeded", attempts: 2, outcome: "succeeded", status: 200},
		{state: "failed", attempts: 6, outcome: "retryable", status: 503, reason: "exhausted"},
		{state: "failed", attempts: 1, outcome: "unauthorized", status: 401, reason: "unauthorized"},
		{state: "cancelled", reason: "endpoint_dead"},
	}
	ages := []time.Duration{0, time.Second, time.Minute, time.Hour, 26 * time.Hour, 10 * 24 * time.Hour, 365 * 24 * time.Hour}
	for i := range 120 {
		r := kinds[i%len(kinds)]
		r.ep = a.endpoints[i%len(a.endpoints)]
		r.ten = a.tenants[i%len(a.endpoints)/2]
		what := []string{fmt.Sprintf("u%d_", i), []string{"order.paid", "order.created", "user.left"}[i%3], fmt.Sprintf(`{"number": "no-%03d"}`, i)}
		r.evt = a.event(r.ten, what[0], what[1], what[2])
		a.events[r.evt] = strings.Join(what, "\n")
		// Several buckets have deliveries of the same number, which only the bucket tells apart.
		r.n = id.Floor(noon.Add(-ages[i%len(ages)])) + int64(i/6)
		a.all = append(a.all, a.get(a.delivery(r)))
	}
	slices.SortFunc(a.all, newest)
	return a
}

func (a *archive) matching(keep func(dispatcher.Delivery) bool) []id.ID {
	var out []id.ID
	for _, d := range a.all {
		if keep(d) {
			out = append(out, d.ID)
		}
	}
	return out
}

const day = 24 * time.Hour

// pacing is how pages are searched for.
type pacing struct {
	budget, first time.Duration
	windows       int
}

// searched pages through all that a filter means, and checks that each page but the last leads further back.
func (o *office) searched(f dispatcher.Filter, p pacing) (all []id.ID) {
	o.Helper()
	const limit = 7
	var before id.ID
	for seen := noon.Add(day); ; {
		page, err := o.desk.SearchWith(o.Context(), f, limit, before, p.budget, p.first, p.windows)
		if err != nil {
			o.Fatal(err)
		}
		if len(page.Deliveries) > limit {
			o.Fatalf("a page of %d has %d", limit, len(page.Deliveries))
		}
		all = append(all, idsOf(page.Deliveries)...)
		if page.Next.IsZero() {
			if !page.SearchedTo.IsZero() {
				o.Errorf("the last page was searched to %s", page.SearchedTo)
			}
			return all
		}
		below := page.Next.N < before.N || page.Next.N == before.N && page.Next.Shard < before.Shard
		if !before.IsZero() && !below || page.SearchedTo.After(seen) {
			o.Fatalf("%v, searched to %s, comes after %v, searched to %s", page.Next, page.SearchedTo, before, seen)
		}
		before, seen = page.Next, page.SearchedTo
	}
}

// Every filter gives what picking from all deliveries by hand gives, whatever the page size.
func TestListGivesWhatTheFilterMeans(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	ten, other, ep := a.tenants[1], a.tenants[2], a.endpoints[2]
	one := a.all[17]
	in := func(states ...dispatcher.State) func(dispatcher.Delivery) bool {
		return func(d dispatcher.Delivery) bool { return slices.Contains(states, d.State) }
	}
	event := func(part int, prefix string) func(dispatcher.Delivery) bool {
		return func(d dispatcher.Delivery) bool {
			return strings.HasPrefix(strings.Split(a.events[d.Event], "\n")[part], prefix)
		}
	}
	nothing := func(dispatcher.Delivery) bool { return false }
	type testCase struct {
		filter dispatcher.Filter
		keep   func(dispatcher.Delivery) bool
		none   bool // on purpose
	}
	cases := map[string]testCase{
		"everything":       {keep: func(dispatcher.Delivery) bool { return true }},
		"all states":       {filter: dispatcher.Filter{States: dispatcher.States()}, keep: func(dispatcher.Delivery) bool { return true }},
		"a tenant":         {filter: dispatcher.Filter{Tenant: &ten}, keep: func(d dispatcher.Delivery) bool { return d.Tenant == ten }},
		"an endpoint":      {filter: dispatcher.Filter{Endpoint: &ep}, keep: func(d dispatcher.Delivery) bool { return d.Endpoint == ep }},
		"tenant, endpoint": {filter: dispatcher.Filter{Tenant: &ten, Endpoint: &ep}, keep: func(d dispatcher.Delivery) bool { return d.Endpoint == ep }},
		"another tenant's": {filter: dispatcher.Filter{Tenant: &other, Endpoint: &ep}, keep: nothing, none: true},
		"an event":         {filter: dispatcher.Filter{Event: &one.Event}, keep: func(d dispatcher.Delivery) bool { return d.Event == one.Event }},
		"a type":           {filter: dispatcher.Filter{EventType: "order.paid"}, keep: event(1, "order.paid")},
		"not a prefix":     {filter: dispatcher.Filter{EventType: "order"}, keep: nothing, none: true},
		"outcomes": {
			filter: dispatcher.Filter{Outcomes: []dispatcher.Outcome{dispatcher.Timeout, dispatcher.Unauthorized}},
			keep: func(d dispatcher.Delivery) bool {
				return d.LastOutcome != nil && (*d.LastOutcome == dispatcher.Timeout || *d.LastOutcome == dispatcher.Unauthorized)
			},
		},
		"since": {
			filter: dispatcher.Filter{Since: noon.Add(-time.Hour)},
			keep:   func(d dispatcher.Delivery) bool { return !d.CreatedAt.Before(noon.Add(-time.Hour)) },
		},
		"until": {
			filter: dispatcher.Filter{Until: noon.Add(-time.Hour)},
			keep:   func(d dispatcher.Delivery) bool { return d.CreatedAt.Before(noon.Add(-time.Hour)) },
		},
		"a window": {
			filter: dispatcher.Filter{Since: noon.Add(-26 * time.Hour), Until: noon.Add(-time.Second)},
			keep: func(d dispatcher.Delivery) bool {
				return !d.CreatedAt.Before(noon.Add(-26*time.Hour)) && d.CreatedAt.Before(noon.Add(-time.Second))
			},
		},
		"an empty window": {filter: dispatcher.Filter{Since: noon, Until: noon}, keep: nothing, none: true},
		"failed of a tenant and a type": {
			filter: dispatcher.Filter{Tenant: &ten, States: []dispatcher.State{dispatcher.StateFailed}, EventType: "user.left"},
			keep: func(d dispatcher.Delivery) bool {
				return d.Tenant == ten && d.State == dispatcher.StateFailed && event(1, "user.left")(d)
			},
		},
		"by delivery's id":               {filter: dispatcher.Filter{Query: " " + id.Delivery.Format(one.ID) + " "}, keep: func(d dispatcher.Delivery) bool { return d.ID == one.ID }},
		"by event's id":                  {filter: dispatcher.Filter{Query: id.Event.Format(one.Event)}, keep: func(d dispatcher.Delivery) bool { return d.Event == one.Event }},
		"by endpoint's id":               {filter: dispatcher.Filter{Query: id.Endpoint.Format(ep)}, keep: func(d dispatcher.Delivery) bool { return d.Endpoint == ep }},
		"by tenant's id":                 {filter: dispatcher.Filter{Query: id.Tenant.Format(ten)}, keep: func(d dispatcher.Delivery) bool { return d.Tenant == ten }},
		"an id that the filter excludes": {filter: dispatcher.Filter{Tenant: &other, Query: id.Tenant.Format(ten)}, keep: nothing, none: true},
		"an id in another bucket":        {filter: dispatcher.Filter{Tenant: &other, Query: id.Event.Format(a.all[slices.IndexFunc(a.all, func(d dispatcher.Delivery) bool { return d.Tenant == ten })].Event)}, keep: nothing, none: true},
		"an id of something else":        {filter: dispatcher.Filter{Query: id.Attempt.Format(one.ID)}, keep: nothing, none: true},
		"by an event's uid":              {filter: dispatcher.Filter{Query: "u7"}, keep: event(0, "u7")},
		"no wildcards":                   {filter: dispatcher.Filter{Query: "u7_"}, keep: event(0, "u7_")},
		"by the beginning of a type":     {filter: dispatcher.Filter{Query: "order."}, keep: event(1, "order.")},
		"by an endpoint's uid":           {filter: dispatcher.Filter{Query: "hook-1"}, keep: func(d dispatcher.Delivery) bool { return strings.HasPrefix(a.names[d.Endpoint], "hook-1") }},
		"by the payload":                 {filter: dispatcher.Filter{Query: `: "no-01`}, keep: event(2, `{"number": "no-01`)},
		"by the payload, of a tenant": {
			filter: dispatcher.Filter{Tenant: &ten, Query: "no-0"},
			keep:   func(d dispatcher.Delivery) bool { return d.Tenant == ten && event(2, `{"number": "no-0`)(d) },
		},
		"by the payload and a type": {
			filter: dispatcher.Filter{EventType: "order.paid", Query: "no-0"},
			keep:   func(d dispatcher.Delivery) bool { return event(1, "order.paid")(d) && event(2, `{"number": "no-0`)(d) },
		},
		"of an endpoint and a type": {
			filter: dispatcher.Filter{Endpoint: &ep, EventType: "user.left"},
			keep:   func(d dispatcher.Delivery) bool { return d.Endpoint == ep && event(1, "user.left")(d) },
		},
		"an outcome of a type": {
			filter: dispatcher.Filter{Outcomes: []dispatcher.Outcome{dispatcher.Retryable}, EventType: "user.left"},
			keep: func(d dispatcher.Delivery) bool {
				return d.LastOutcome != nil && *d.LastOutcome == dispatcher.Retryable && event(1, "user.left")(d)
			},
		},
		"nothing like it": {filter: dispatcher.Filter{Query: "nothing like it"}, keep: nothing, none: true},
	}
	for _, s := range dispatcher.States() {
		cases["only "+s.String()] = testCase{filter: dispatcher.Filter{States: []dispatcher.State{s}}, keep: in(s)}
		some := []dispatcher.State{s, dispatcher.StateFailed, dispatcher.Held}
		cases["failed, held, "+s.String()] = testCase{filter: dispatcher.Filter{States: some}, keep: in(some...)}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want := a.matching(c.keep)
			if (want == nil) != c.none {
				t.Fatal("the case tests nothing")
			}
			o := &office{T: t, db: a.db, desk: a.desk}
			for _, limit := range []int{250, 25} {
				if got := o.pages(c.filter, limit); !slices.Equal(idsOf(got), want) {
					t.Errorf("by %d: got %d\n%v\nwant %d\n%v", limit, len(got), idsOf(got), len(want), want)
				}
			}
			for _, p := range []pacing{
				{budget: 0, first: 50 * day},                      // a window a page
				{budget: time.Hour, first: time.Hour, windows: 3}, // and then all that is left
				{budget: time.Hour, first: 999 * day, windows: 1}, // all at once
				{budget: 5 * time.Millisecond, first: 20 * day},   // whatever the time is enough for
			} {
				if got := o.searched(c.filter, p); !slices.Equal(got, want) {
					t.Errorf("%+v: got %d\n%v\nwant %d\n%v", p, len(got), got, len(want), want)
				}
			}
		})
	}
}

func TestListShowsWhatGetShows(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	for i, d := range a.list(dispatcher.Filter{}, 250, id.ID{}) {
		want := a.all[i]
		if fmt.Sprintf("%+v", plain(d)) != fmt.Sprintf("%+v", plain(want)) {
			t.Errorf("got %+v\nwant %+v", plain(d), plain(want))
		}
	}
}

// plain replaces pointers by what they point to.
func plain(d dispatcher.Delivery) string {
	s := fmt.Sprint(d.ID, d.Tenant, d.Event, d.Endpoint, d.EventType, d.State, d.Reason, d.Attempts, d.CreatedAt)
	if d.NextAttemptAt != nil {
		s += fmt.Sprint(" next ", *d.NextAttemptAt)
	}
	if d.LastOutcome != nil {
		s += fmt.Sprint(" outcome ", *d.LastOutcome)
	}
	if d.LastStatus != nil {
		s += fmt.Sprint(" status ", *d.LastStatus)
	}
	if d.FinishedAt != nil {
		s += fmt.Sprint(" finished ", *d.FinishedAt)
	}
	return s
}

// Pages stay as they are while deliveries arrive, finish and come back.
func TestPagesAreStable(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	var got []id.ID
	var before id.ID
	for i := 0; ; i++ {
		page := a.list(dispatcher.Filter{}, 10, before)
		got = append(got, idsOf(page)...)
		if len(page) < 10 {
			break
		}
		before = page[len(page)-1].ID
		a.delivery(row{ten: a.tenants[0], ep: a.endpoints[0], state: "pending"})
		if d := a.all[(i*10+12)%len(a.all)]; d.State == dispatcher.StateFailed {
			if _, err := a.desk.Retry(t.Context(), d.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !slices.Equal(got, idsOf(a.all)) {
		t.Errorf("got %d\n%v\nwant %d\n%v", len(got), got, len(a.all), idsOf(a.all))
	}
}

func TestListRefusesTextThatIsNone(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for _, q := range []string{"a\x00b", "\xff", strings.Repeat("a", 501)} {
		if _, err := o.desk.List(t.Context(), dispatcher.Filter{Query: q}, 10, id.ID{}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%.10q: %v", q, err)
		}
	}
}
