package dispatcher

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// Every outcome, and of those that a status decides every status that is told apart.
func TestJudge(t *testing.T) {
	t.Parallel()
	type verdict struct {
		s      symptom
		unwell bool
	}
	want := map[Outcome]map[int]verdict{
		Unknown:       {0: {steady, false}},
		Succeeded:     {200: {quick, false}, 204: {quick, false}},
		Unauthorized:  {401: {quick, false}, 403: {quick, false}},
		Gone:          {410: {quick, false}},
		Redirected:    {302: {quick, false}},
		Rejected:      {404: {quick, false}, 422: {quick, false}},
		Timeout:       {0: {overloaded, true}},
		ConnectError:  {0: {overloaded, true}},
		DNSError:      {0: {steady, true}},
		TLSError:      {0: {steady, true}},
		ProtocolError: {0: {steady, true}, 600: {steady, true}},
		Blocked:       {0: {steady, false}},
		Retryable: {
			408: {steady, false}, 425: {steady, false}, 429: {overloaded, true}, 500: {steady, true}, 501: {steady, true},
			502: {overloaded, true}, 503: {overloaded, true}, 504: {overloaded, true}, 599: {steady, true},
		},
	}
	for _, o := range Outcomes() {
		if len(want[o]) == 0 {
			t.Errorf("%v: nothing is asked of it", o)
		}
		for status, v := range want[o] {
			if s, unwell := judge(o, status, time.Millisecond); s != v.s || unwell != v.unwell {
				t.Errorf("%v %d: %d, %v", o, status, s, unwell)
			}
			if v.s == quick {
				v.s = steady
			}
			if s, unwell := judge(o, status, quickAnswer+1); s != v.s || unwell != v.unwell {
				t.Errorf("%v %d, slow: %d, %v", o, status, s, unwell)
			}
		}
	}
}

func TestWindowGrowsAndShrinks(t *testing.T) {
	t.Parallel()
	type answer struct {
		s           symptom
		begun, ends int // seconds after noon
	}
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	for name, c := range map[string]struct {
		most    int
		answers []answer
		want    []int // the window after each
	}{
		"it grows by one with each quick answer": {20, []answer{{quick, 0, 1}, {quick, 0, 1}}, []int{17, 18}},
		"not beyond its most":                    {17, []answer{{quick, 0, 1}, {quick, 0, 1}, {quick, 0, 2}}, []int{17, 17, 17}},
		"a most below where it begins":           {4, []answer{{quick, 0, 1}, {overloaded, 2, 3}}, []int{4, 2}},
		"steady leaves it":                       {20, []answer{{steady, 0, 1}}, []int{16}},
		"all that was in flight cuts once":       {20, []answer{{overloaded, 0, 5}, {overloaded, 1, 6}, {overloaded, 4, 9}}, []int{8, 8, 8}},
		"what began after the cut cuts again":    {20, []answer{{overloaded, 0, 5}, {overloaded, 5, 6}, {overloaded, 6, 7}}, []int{8, 4, 2}},
		"never below one": {
			20,
			[]answer{{overloaded, 0, 1}, {overloaded, 1, 2}, {overloaded, 2, 3}, {overloaded, 3, 4}, {overloaded, 4, 5}, {overloaded, 5, 6}},
			[]int{8, 4, 2, 1, 1, 1},
		},
		"and up again from there": {1, []answer{{overloaded, 0, 1}, {quick, 1, 2}}, []int{1, 1}},
	} {
		var p pace
		for i, a := range c.answers {
			p.learn(int64(1), a.s, false, c.most, at(a.begun), at(a.ends))
			if got := p.window(); got != c.want[i] {
				t.Errorf("%s: after answer %d the window is %d, want %d", name, i+1, got, c.want[i])
			}
		}
	}
}

func TestFailuresInARow(t *testing.T) {
	t.Parallel()
	r := newRoads()
	c := claimed{Shard: 1, EndpointID: 7}
	for i, a := range []struct {
		delivery int64
		unwell   bool
		want     int
	}{
		{1, true, 1}, {2, true, 2}, {2, true, 2}, {2, true, 2}, {1, true, 3}, {3, false, 0}, {1, true, 1}, {1, true, 1},
	} {
		c.ID = a.delivery
		if got := r.left(c, steady, a.unwell, 10, noon, noon); got != a.want {
			t.Errorf("after answer %d: %d in a row, want %d", i+1, got, a.want)
		}
	}
}

func TestCooldown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schedule []time.Duration
		want     []time.Duration // by how often it has opened before
	}{
		"default": {DefaultSchedule, []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute}},
		"none":    {nil, []time.Duration{5 * time.Second, 10 * time.Second}},
		"short": {
			[]time.Duration{800 * time.Millisecond, time.Hour},
			[]time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 12 * time.Second, 12 * time.Second},
		},
		"very short": {[]time.Duration{4 * time.Millisecond}, []time.Duration{5 * time.Millisecond, 10 * time.Millisecond}},
	} {
		for trips, want := range c.want {
			if got := cooldown(c.schedule, trips); got != want {
				t.Errorf("%s, after %d: %v, want %v", name, trips, got, want)
			}
		}
		if got, last := cooldown(c.schedule, 1<<20), cooldown(c.schedule, 10); got != last {
			t.Errorf("%s: grows without end: %v, %v", name, last, got)
		}
	}
}

func TestSpacingIsSomewhatLongerThanAsked(t *testing.T) {
	t.Parallel()
	for limit, want := range map[subscriptions.RateLimit]time.Duration{
		{Limit: 100, Per: time.Second}:     10*time.Millisecond + 250*time.Microsecond,
		{Limit: 1, Per: 24 * time.Hour}:    24*time.Hour + 864*time.Second,
		{Limit: 10_000, Per: time.Second}:  102500 * time.Nanosecond,
		{Limit: 3, Per: time.Second}:       341666666 * time.Nanosecond,
		{Limit: 10, Per: time.Second / 10}: 10*time.Millisecond + 500*time.Microsecond,
	} {
		if got := spacing(limit); got.Truncate(time.Microsecond) != want.Truncate(time.Microsecond) {
			t.Errorf("%v: %v, want %v", limit, got, want)
		}
	}
}

// pace reads what all processes know of an endpoint's pace; "" if it never needed one.
func (w *world) pace(endpoint id.ID) string {
	w.Helper()
	var got string
	err := w.db.QueryRow(w.Context(), `SELECT coalesce((SELECT
			format('%s %s until %s, paused until %s', breaker, trips, breaker_until - $3, paused_until - $3)
		FROM endpoint_pace WHERE shard = $1 AND endpoint_id = $2), '')`, endpoint.Shard, endpoint.N, w.clock()).Scan(&got)
	if err != nil {
		w.Fatal(err)
	}
	return got
}

// look is what d sees of the endpoint a second later: time stands still for the clock, but not for what it remembers.
func (w *world) look(d *Dispatcher, endpoint id.ID) int {
	w.Helper()
	d.targets.forget(endpoint)
	return w.round(d)
}

// broken has an endpoint's breaker opened by failures of so many deliveries, which wait for a retry in a minute then.
func (w *world) broken(d *Dispatcher, endpoint id.ID) {
	w.Helper()
	for range breakerAfter {
		w.enqueue(endpoint, `{}`)
	}
	if n := w.round(d); n != breakerAfter {
		w.Fatalf("%d of %d failed", n, breakerAfter)
	}
	if got := w.pace(endpoint); got != "open 1 until 00:00:05, paused until " {
		w.Fatalf("after %d failures in a row: %q", breakerAfter, got)
	}
}

// An open breaker makes a delivery wait a minute beyond its time and no longer: the schedule of retries is not stretched by as many
// probes as there are deliveries. What then goes well closes it.
func TestBreakerHoldsADeliveryAMinuteAtMost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(500))
	endpoint := w.endpoint()
	w.broken(w.d, endpoint)
	for range 5 {
		w.enqueue(endpoint, `{}`)
	}
	w.advance(longestHold + time.Second) // the retries are due since a second
	if n := w.look(w.d, endpoint); n != 5 {
		t.Fatalf("%d go out past the breaker, want the five that waited for a minute", n)
	}
	if got := w.pace(endpoint); !strings.HasPrefix(got, "open 1 ") {
		t.Errorf("after failures past it: %q", got)
	}
	w.enqueue(endpoint, `{}`)
	w.advance(longestHold + 10*time.Second)
	w.d.deps.Doer = always(200)
	if n := w.look(w.d, endpoint); n == 0 {
		t.Fatal("nothing goes out past the breaker")
	}
	if got := w.pace(endpoint); got != "closed 0 until , paused until " {
		t.Errorf("after a success past it: %q", got)
	}
}

// Where few slots are free, what becomes free is first that of tenants who have less than their share.
func TestWhoHasLessGoesFirst(t *testing.T) {
	t.Parallel()
	r := newRoads()
	r.tenants[1] = 7
	s := newSharing(r, 1, 1, 8)
	if got := s.laps(); len(got) != 2 || !got[0] || got[1] {
		t.Fatalf("laps: %v", got)
	}
	if !s.hasItsShare(1) || s.hasItsShare(2) || s.hasItsShare(0) {
		t.Error("of eight slots the tenant with seven has its share, and nobody else")
	}
	if got := newSharing(r, 4, 4, 8).laps(); len(got) != 1 || got[0] {
		t.Errorf("with half of the slots free: %v", got)
	}
}

func TestBreakerOpensProbesAndCloses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(500))
	endpoint := w.endpoint()
	w.broken(w.d, endpoint)
	for range 30 {
		w.enqueue(endpoint, `{}`)
	}
	w.advance(5*time.Second - time.Millisecond)
	if n := w.look(w.d, endpoint); n != 0 {
		t.Fatalf("%d go out while the breaker is open", n)
	}
	for trips, wait := range []int{10, 20} {
		w.advance(time.Millisecond)
		if n := w.look(w.d, endpoint); n != 1 {
			t.Fatalf("%d go out as a probe", n)
		}
		want := fmt.Sprintf("open %d until %s, paused until ", trips+2, time.Time{}.Add(time.Duration(wait)*time.Second).Format(time.TimeOnly))
		if got := w.pace(endpoint); got != want {
			t.Fatalf("after a probe that failed: %q, want %q", got, want)
		}
		w.advance(time.Duration(wait)*time.Second - time.Millisecond)
		if n := w.look(w.d, endpoint); n != 0 {
			t.Fatalf("%d go out before the cooldown's end", n)
		}
	}
	w.advance(time.Millisecond)
	w.d.deps.Doer = always(200)
	if n := w.look(w.d, endpoint); n != 1 {
		t.Fatalf("%d go out as a probe", n)
	}
	if got := w.pace(endpoint); got != "closed 0 until , paused until " {
		t.Fatalf("after a probe that went well: %q", got)
	}
	var rounds []int
	for n := w.round(w.d); n > 0; n = w.round(w.d) {
		rounds = append(rounds, n)
	}
	// Then it has the cap, less what the retries' part of a round is short of.
	if want := []int{1, 2, 4, 8}; len(rounds) < 5 || !slices.Equal(rounds[:4], want) || slices.Max(rounds) > 10 {
		t.Errorf("the backlog comes back as %v, want %v and so on, never more than 10", rounds, want)
	}
}

// Only failures in a row count, and of those only what says that the receiver is not well.
func TestBreakerStaysClosed(t *testing.T) {
	t.Parallel()
	for name, statuses := range map[string][]int{
		"one delivery, with all its retries": {500},
		"a success in between":               {500, 500, 500, 500, 500, 500, 500, 500, 500, 200, 500, 500, 500, 500, 500, 500, 500, 500, 500},
		"rejected":                           {404, 404, 404, 404, 404, 404, 404, 404, 404, 404, 404, 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			endpoint := w.endpoint()
			for _, status := range statuses {
				w.enqueue(endpoint, `{}`)
				w.d.deps.Doer = always(status)
				w.round(w.d)
			}
			if len(statuses) == 1 {
				for _, delay := range DefaultSchedule {
					w.advance(delay)
					w.round(w.d)
				}
				if n := w.count(`SELECT count(*) FROM deliveries_finished WHERE state = 'failed'`); n != 1 {
					t.Fatal("it is not exhausted")
				}
			}
			if got := w.pace(endpoint); got != "" {
				t.Errorf("%q", got)
			}
		})
	}
}

// What was put back without an attempt says nothing about the receiver: it ends no row of failures.
func TestPutBackEndsNoRowOfFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(500))
	endpoint := w.endpoint()
	for n := range breakerAfter {
		w.enqueue(endpoint, `{}`)
		w.round(w.d)
		if n != breakerAfter/2 {
			continue
		}
		w.enqueue(endpoint, `{}`)
		w.d.roads.note(endpoint, laneFirst, w.clock())
		p, err := w.d.plan(t.Context(), 1, 10)
		if err != nil {
			t.Fatal(err)
		}
		got, err := w.d.claim(t.Context(), p.wishes)
		if err != nil || len(got) != 1 {
			t.Fatal(len(got), err)
		}
		w.d.roads.claimed(w.clock(), p.wishes, got)
		w.d.inFlight.Add(1)
		got[0].slotAt, got[0].slotless = time.Now().Add(time.Hour), true // other processes were first
		w.d.hand(t.Context(), errand{got[0], p.targets[endpoint], time.Now()})
		w.settle(w.d)
	}
	if got := w.pace(endpoint); got == "" {
		t.Errorf("after %d failures in a row and one that was put back the breaker is closed", breakerAfter)
	}
}

// The breaker is everybody's: another process sees it within a second, and of two only one probes.
func TestBreakerIsShared(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := newWorld(t, always(500))
	endpoint := w.endpoint()
	other := w.another(g.Do)
	w.broken(w.d, endpoint)
	for range 5 {
		w.enqueue(endpoint, `{}`)
	}
	if n := w.look(other, endpoint); n != 0 {
		t.Fatalf("another process sends %d", n)
	}
	w.advance(5 * time.Second)
	other.targets.forget(endpoint)
	if n, err := other.claimOnce(t.Context(), t.Context(), allShards); err != nil || n != 1 {
		t.Fatalf("the probe: %d, %v", n, err)
	}
	<-g.arrived
	if got := w.pace(endpoint); got != "half_open 1 until 00:00:15, paused until " {
		t.Errorf("while the probe is on its way: %q", got)
	}
	for range 3 { // not now, nor when it looks again
		if n := w.look(w.d, endpoint); n != 0 {
			t.Fatalf("%d beside the probe", n)
		}
		w.advance(2 * time.Second)
	}
	g.answer <- 200
	w.settle(other)
	w.d.deps.Doer = always(200)
	if n := w.look(w.d, endpoint); n != 1 {
		t.Errorf("%d go out first after the probe of another process went well, want a window of 1", n)
	}
}

// A process that dies with its probe holds nobody up for longer than the probe's time.
func TestProbeOfADeadProcessIsTakenByAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(500))
	endpoint := w.endpoint()
	w.broken(w.d, endpoint)
	w.enqueue(endpoint, `{}`)
	w.advance(5 * time.Second)
	if won, err := w.store.TakeProbe(t.Context(), endpoint, w.clock().Add(15*time.Second)); err != nil || !won {
		t.Fatal(won, err)
	}
	w.advance(15*time.Second - time.Millisecond)
	if n := w.look(w.d, endpoint); n != 0 {
		t.Errorf("%d beside somebody's probe", n)
	}
	w.advance(2 * time.Millisecond)
	w.advance(targetsMaxAge)
	if n := w.look(w.d, endpoint); n != 1 {
		t.Errorf("%d after it", n)
	}
}

// A turn to probe is not used up by finding nothing to send, such as when all that waits is held back by its group.
func TestProbeThatFindsNothingToSendIsGivenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(500))
	endpoint := w.endpoint()
	for group := range int64(breakerAfter) {
		w.enqueueIn(group+1, endpoint, `{}`)
		w.enqueueIn(group+1, endpoint, `{}`)
	}
	w.round(w.d)
	if got := w.pace(endpoint); got != "open 1 until 00:00:05, paused until " {
		t.Fatalf("%q", got)
	}
	w.advance(5 * time.Second)
	if n := w.look(w.d, endpoint); n != 0 {
		t.Fatalf("%d go out behind heads that wait", n)
	}
	w.enqueueIn(100, endpoint, `{}`)
	w.advance(targetsMaxAge)
	if n := w.look(w.d, endpoint); n != 1 {
		t.Errorf("%d go out as a probe a second after a look that found none: %s", n, w.pace(endpoint))
	}
}

// 429 and 503 with Retry-After pause the endpoint for all processes; its owner lets it go at once by enabling it.
func TestRetryAfterPausesTheEndpoint(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(*http.Request) (*http.Response, error) {
				return reply(status, header("Retry-After", "30"), "")
			})
			endpoint, healthy := w.endpoint(), w.endpoint()
			other := w.another(always(200))
			w.enqueue(endpoint, `{}`)
			w.round(w.d)
			if got := w.pace(endpoint); got != "closed 0 until , paused until 00:00:30" {
				t.Fatalf("%q", got)
			}
			w.d.deps.Doer = always(200)
			for range 3 {
				w.enqueue(endpoint, `{}`)
			}
			w.advance(30*time.Second - time.Millisecond)
			for _, d := range []*Dispatcher{w.d, other} {
				if n := w.look(d, endpoint); n != 0 {
					t.Fatalf("%d go out during the pause", n)
				}
				w.enqueue(healthy, `{}`)
				if n := w.look(d, endpoint); n != 1 {
					t.Fatalf("%d of another endpoint go out meanwhile", n)
				}
			}
			w.advance(time.Millisecond)
			for _, d := range []*Dispatcher{w.d, other} {
				if n := w.look(d, endpoint); n != 1 {
					t.Errorf("%d go out first after the pause, want a window of 1", n)
				}
			}
		})
	}
}

func TestForgetLetsAPausedEndpointGoAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(*http.Request) (*http.Response, error) {
		return reply(503, header("Retry-After", "3600"), "")
	})
	endpoint := w.endpoint()
	w.enqueue(endpoint, `{}`)
	w.round(w.d)
	w.enqueue(endpoint, `{}`)
	if n := w.round(w.d); n != 0 {
		t.Fatalf("%d go out during the pause", n)
	}
	enabled := subscriptions.Enabled
	ref := id.Endpoint.Format(endpoint)
	if _, err := w.store.UpdateEndpoint(t.Context(), w.tenant, ref, "", subscriptions.EndpointPatch{Status: &enabled}); err != nil {
		t.Fatal(err)
	}
	w.d.Forget(endpoint)
	if n := w.round(w.d); n != 1 {
		t.Errorf("%d go out when its owner says that it is well", n)
	}
}

// A change that came before the answer of an attempt is not undone by it.
func TestAnswerFromBeforeAChangeOpensNoBreaker(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := newWorld(t, g.Do)
	endpoint := w.endpoint()
	for range breakerAfter {
		w.enqueue(endpoint, `{}`)
	}
	if n, err := w.d.claimOnce(t.Context(), t.Context(), allShards); err != nil || n != breakerAfter {
		t.Fatal(n, err)
	}
	elsewhere := "https://elsewhere.test/"
	patch := subscriptions.EndpointPatch{URL: subscriptions.Optional[string]{Given: true, Value: &elsewhere}}
	if _, err := w.store.UpdateEndpoint(t.Context(), w.tenant, id.Endpoint.Format(endpoint), "", patch); err != nil {
		t.Fatal(err)
	}
	for range breakerAfter {
		g.answer <- 500
	}
	w.settle(w.d)
	if got := w.pace(endpoint); got != "" {
		t.Errorf("%q", got)
	}
}
