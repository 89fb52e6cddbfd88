package subscriptions_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

type change = subscriptions.PaceChange

// bookPace books changes as of now, in a bucket.
func (w *world) bookPace(shard int16, changes ...change) {
	w.t.Helper()
	b := &pgx.Batch{}
	subscriptions.QueuePace(b, shard, changes, w.clock.now())
	if err := w.pool.SendBatch(w.t.Context(), b).Close(); err != nil {
		w.t.Fatal(err)
	}
}

// paced is the part of a target that is its pace.
type paced struct {
	Breaker                               subscriptions.Breaker
	Trips                                 int
	BreakerUntil, PausedUntil, NextSlotAt time.Time
}

func (w *world) pace(e subscriptions.Endpoint) paced {
	w.t.Helper()
	t := w.target(e)
	return paced{t.Breaker, t.Trips, t.BreakerUntil, t.PausedUntil, t.NextSlotAt}
}

// Every change of every state of a breaker. An hour of a row is when the breaker came into its state, or ends it.
func TestBreakerMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	hour := func(n int) time.Time { return time.Date(2026, 12, 1, n, 0, 0, 0, time.UTC) }
	now, until := w.clock.now(), hour(9)
	const none = "" // no row
	for _, test := range []struct {
		from  subscriptions.Breaker // with 3 trips, since 1 o'clock, until 2 o'clock
		c     change
		to    subscriptions.Breaker
		trips int
		until time.Time
		since time.Time // zero: nil
	}{
		{none, change{Open: true, Until: until}, subscriptions.BreakerOpen, 1, until, now},
		{none, change{Reopen: true, Until: until}, subscriptions.BreakerClosed, 0, time.Time{}, time.Time{}},
		{none, change{Close: true}, subscriptions.BreakerClosed, 0, time.Time{}, time.Time{}},
		{none, change{}, subscriptions.BreakerClosed, 0, time.Time{}, time.Time{}},
		{subscriptions.BreakerClosed, change{Open: true, Until: until}, subscriptions.BreakerOpen, 1, until, now},
		{subscriptions.BreakerClosed, change{Reopen: true, Until: until}, subscriptions.BreakerClosed, 0, time.Time{}, hour(1)},
		{subscriptions.BreakerClosed, change{Close: true}, subscriptions.BreakerClosed, 0, time.Time{}, hour(1)},
		{subscriptions.BreakerOpen, change{Open: true, Until: until}, subscriptions.BreakerOpen, 3, hour(2), hour(1)},
		{subscriptions.BreakerOpen, change{Reopen: true, Until: until}, subscriptions.BreakerOpen, 4, until, hour(1)},
		{subscriptions.BreakerOpen, change{Close: true}, subscriptions.BreakerClosed, 0, time.Time{}, now},
		{subscriptions.BreakerOpen, change{}, subscriptions.BreakerOpen, 3, hour(2), hour(1)},
		{subscriptions.BreakerHalfOpen, change{Open: true, Until: until}, subscriptions.BreakerHalfOpen, 3, hour(2), hour(1)},
		{subscriptions.BreakerHalfOpen, change{Reopen: true, Until: until}, subscriptions.BreakerOpen, 4, until, now},
		{subscriptions.BreakerHalfOpen, change{Close: true}, subscriptions.BreakerClosed, 0, time.Time{}, now},
	} {
		for _, paused := range []time.Time{{}, hour(5)} {
			e, _ := w.endpoint(tenant, nil)
			switch test.from {
			case none:
			case subscriptions.BreakerClosed:
				w.exec(`INSERT INTO endpoint_pace (shard, endpoint_id, breaker_changed_at) VALUES ($1, $2, $3)`, e.ID.Shard, e.ID.N, hour(1))
			default:
				w.exec(`INSERT INTO endpoint_pace VALUES ($1, $2, $3, 3, $4, $5)`, e.ID.Shard, e.ID.N, string(test.from), hour(2), hour(1))
			}
			c := test.c
			c.Endpoint, c.PausedUntil = e.ID.N, paused
			b := &pgx.Batch{}
			subscriptions.QueuePace(b, e.ID.Shard, []change{c}, now)
			if err := w.pool.SendBatch(t.Context(), b).Close(); err != nil {
				t.Fatal(err)
			}
			if nothing := test.c == (change{}) && paused.IsZero(); nothing != (b.Len() == 0) {
				t.Errorf("%+v queues %d statements", c, b.Len())
			}
			want := paced{Breaker: test.to, Trips: test.trips, BreakerUntil: test.until, PausedUntil: paused}
			if got := w.pace(e); got != want {
				t.Errorf("%q %+v: got\n%+v, want\n%+v", test.from, c, got, want)
			}
			shown := must(w.Endpoint(t.Context(), tenant, ref(e)))(t).Pace
			pace := subscriptions.Pace{Breaker: test.to}
			for place, at := range map[**time.Time]time.Time{
				&pace.Since: test.since, &pace.NextProbeAt: test.until, &pace.PausedUntil: paused,
			} {
				if !at.IsZero() {
					*place = &at
				}
			}
			if !reflect.DeepEqual(shown, pace) {
				t.Errorf("%q %+v: shown is\n%+v, want\n%+v", test.from, c, shown, pace)
			}
			rows := w.count(`SELECT FROM endpoint_pace WHERE endpoint_id = $1`, e.ID.N)
			if needed := test.from != none || test.to != subscriptions.BreakerClosed || !paused.IsZero(); (rows == 1) != needed {
				t.Errorf("%q %+v leaves %d rows", test.from, c, rows)
			}
		}
	}
}

func TestAPauseKeepsTheGreater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, nil)
	pause := func(d time.Duration, other change) {
		t.Helper()
		other.Endpoint, other.PausedUntil = e.ID.N, w.clock.now().Add(d)
		w.bookPace(e.ID.Shard, other)
	}
	pause(time.Minute, change{})
	first := w.clock.now().Add(time.Minute)
	pause(time.Second, change{Open: true, Until: first})
	if got := w.pace(e); !got.PausedUntil.Equal(first) || got.Breaker != subscriptions.BreakerOpen {
		t.Errorf("after a shorter one it is %+v", got)
	}
	w.bookPace(e.ID.Shard, change{Endpoint: e.ID.N, Close: true})
	if got := w.pace(e); !got.PausedUntil.Equal(first) {
		t.Errorf("after none it is %+v", got)
	}
	pause(time.Hour, change{Close: true})
	if got := w.pace(e); !got.PausedUntil.Equal(w.clock.now().Add(time.Hour)) {
		t.Errorf("after a longer one it is %+v", got)
	}
	w.clock.advance(time.Hour)
	if got := must(w.Endpoint(t.Context(), tenant, ref(e)))(t); got.Pace.PausedUntil != nil {
		t.Errorf("a pause that has passed is shown: %v", got.Pace.PausedUntil)
	}
}

// One batch, in whatever order, with endpoints that are not there, another bucket's, or of another version by now.
func TestPaceIsBookedForWhomItConcerns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	a, _ := w.endpoint(tenant, nil)
	b, _ := w.endpoint(tenant, nil)
	gone, _ := w.endpoint(tenant, nil)
	moved, _ := w.endpoint(tenant, nil)
	elsewhere, _ := w.endpoint(w.tenantIn((tenant.ID.Shard+1)%id.Buckets), nil)
	until := w.clock.now().Add(time.Minute)
	open := func(e subscriptions.Endpoint, version int) change {
		return change{Endpoint: e.ID.N, Open: true, Until: until, PausedUntil: until, Version: version}
	}
	w.bookPace(a.ID.Shard, open(gone, 0))
	must(w.DeleteEndpoint(t.Context(), tenant, ref(gone)))(t)
	must(w.UpdateEndpoint(t.Context(), tenant, ref(moved), "", subscriptions.EndpointPatch{URL: put("https://b.example")}))(t)
	w.bookPace(a.ID.Shard, open(moved, 1), open(gone, 0), open(b, 0), open(elsewhere, 0), change{Endpoint: 77, Open: true, Until: until}, open(a, 1))
	for e, opened := range map[*subscriptions.Endpoint]bool{&a: true, &b: true, &gone: false, &moved: false, &elsewhere: false} {
		want := paced{Breaker: subscriptions.BreakerClosed}
		if opened {
			want = paced{Breaker: subscriptions.BreakerOpen, Trips: 1, BreakerUntil: until, PausedUntil: until}
		}
		if got := w.pace(*e); got != want {
			t.Errorf("%v: %+v, want %+v", e.ID, got, want)
		}
	}
	if n := w.count(`SELECT FROM endpoint_pace`); n != 2 {
		t.Errorf("%d rows", n)
	}
	_, gone2, err := w.DeleteTenant(t.Context(), id.Tenant.Format(tenant.ID))
	if err != nil || len(gone2) != 3 || w.count(`SELECT FROM endpoint_pace`) != 0 {
		t.Errorf("a deleted tenant leaves %d rows (%v)", w.count(`SELECT FROM endpoint_pace`), err)
	}
}

// Two batches that name the same endpoints in opposite order get through, and no pause is lost.
func TestPaceOfTwoBatchesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	var all []subscriptions.Endpoint
	for range 20 {
		e, _ := w.endpoint(tenant, nil)
		all = append(all, e)
	}
	now := w.clock.now()
	var up, down []change
	for _, e := range all {
		up = append(up, change{Endpoint: e.ID.N, Open: true, Until: now, PausedUntil: now.Add(time.Second)})
		down = append([]change{{Endpoint: e.ID.N, PausedUntil: now.Add(time.Minute)}}, down...)
	}
	errs := make(chan error, 8)
	for i := range cap(errs) {
		go func() {
			b := &pgx.Batch{}
			subscriptions.QueuePace(b, tenant.ID.Shard, [][]change{up, down}[i%2], now)
			errs <- w.pool.SendBatch(t.Context(), b).Close()
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for _, e := range all {
		if got := w.pace(e); got.Trips != 1 || !got.PausedUntil.Equal(now.Add(time.Minute)) {
			t.Errorf("trips %d, paused until %v", got.Trips, got.PausedUntil)
		}
	}
}

// What a change by the owner says about the receiver or the limit takes the pace of before with it; any other does not.
func TestAPatchClearsWhatNoLongerHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	type patch = subscriptions.EndpointPatch
	rate := func(limit int) subscriptions.Optional[subscriptions.RateLimit] {
		return put(subscriptions.RateLimit{Limit: limit, Per: time.Second})
	}
	for name, test := range map[string]struct {
		status        string // before
		p             patch
		breaker, slot bool // what it clears
	}{
		"description":        {"enabled", patch{Description: put("x")}, false, false},
		"nothing":            {"enabled", patch{}, false, false},
		"in flight":          {"enabled", patch{MaxInFlight: put(5), Ordering: put(subscriptions.OrderingGroup)}, false, false},
		"the same":           {"enabled", patch{URL: put("https://example.com/hook"), RateLimit: rate(5)}, false, false},
		"url":                {"enabled", patch{URL: put("https://b.example")}, true, false},
		"rate limit":         {"enabled", patch{RateLimit: rate(6)}, false, true},
		"no rate limit":      {"enabled", patch{RateLimit: null[subscriptions.RateLimit]()}, false, true},
		"disabled":           {"enabled", patch{Status: ptr(subscriptions.Disabled)}, false, false},
		"enabled, as it was": {"enabled", patch{Status: ptr(subscriptions.Enabled)}, true, false},
		"enabled":            {"disabled", patch{Status: ptr(subscriptions.Enabled)}, true, false},
		"revived":            {"dead", patch{Status: ptr(subscriptions.Enabled), RateLimit: rate(7)}, true, true},
	} {
		var heard []id.ID
		w.Store = w.hearing(func(e id.ID) { heard = append(heard, e) })
		e, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.RateLimit = rate(5).Value })
		w.exec(`UPDATE endpoints SET status = $1::text::endpoint_status, status_reason = CASE $1 WHEN 'enabled' THEN NULL ELSE 'x' END WHERE id = $2`,
			test.status, e.ID.N)
		w.bookPace(e.ID.Shard, change{Endpoint: e.ID.N, Open: true, Until: w.clock.now().Add(time.Minute), PausedUntil: w.clock.now().Add(time.Hour)})
		must(w.ReserveSlots(t.Context(), []subscriptions.SlotWish{{Endpoint: e.ID, N: 1, Every: time.Second, Within: time.Second}}))(t)
		opened, want := must(w.Endpoint(t.Context(), tenant, ref(e)))(t), w.pace(e)
		at := w.clock.advance(time.Second)
		got := must(w.UpdateEndpoint(t.Context(), tenant, ref(e), "", test.p))(t)
		pace := opened.Pace
		if test.breaker {
			want = paced{Breaker: subscriptions.BreakerClosed, NextSlotAt: want.NextSlotAt}
			pace = subscriptions.Pace{Breaker: subscriptions.BreakerClosed, Since: &at}
		}
		if test.slot {
			want.NextSlotAt = time.Time{}
		}
		if left := w.pace(e); left != want {
			t.Errorf("%s leaves\n%+v, want\n%+v", name, left, want)
		}
		if !reflect.DeepEqual(got.Pace, pace) {
			t.Errorf("%s: the answer has\n%+v, want\n%+v", name, got.Pace, pace)
		}
		if name == "enabled, as it was" && got.Version != opened.Version+1 {
			t.Errorf("%s: version %d became %d: what was on its way before would count", name, opened.Version, got.Version)
		}
		if !reflect.DeepEqual(heard, []id.ID{e.ID}) {
			t.Errorf("%s: Changed hears of %v", name, heard)
		}
	}
}
