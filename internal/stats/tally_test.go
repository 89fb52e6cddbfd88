package stats

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pgtest"
)

// desk is a database that processes count into, at a time that the test sets.
type desk struct {
	*testing.T
	db  *pgxpool.Pool
	ids *id.Generator
	log strings.Builder

	mu sync.Mutex
	at time.Time
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{T: t, db: pgtest.Pool(t), at: noon.Add(5 * minute)}
	d.ids = id.NewGenerator(1, d.now)
	return d
}

func (d *desk) now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at
}

func (d *desk) advance(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = d.at.Add(by)
}

func (d *desk) tally() *Tally {
	return NewTally(TallyDeps{DB: d.db, IDs: d.ids, Now: d.now, Log: zerolog.New(&d.log)})
}

func (d *desk) flush(t *Tally) {
	d.Helper()
	if err := t.Flush(d.Context()); err != nil {
		d.Fatal(err)
	}
}

func (d *desk) overview(back, step time.Duration) Series {
	d.Helper()
	s, err := NewReader(d.db, d.now).Overview(d.Context(), d.now().Add(-back), step)
	if err != nil {
		d.Fatal(err)
	}
	return s
}

func (d *desk) endpoint(e id.ID, back time.Duration) Series {
	d.Helper()
	s, err := NewReader(d.db, d.now).Endpoint(d.Context(), e, d.now().Add(-back), 0)
	if err != nil {
		d.Fatal(err)
	}
	return s
}

func (d *desk) rows(table string) (n int) {
	d.Helper()
	if err := d.db.QueryRow(d.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		d.Fatal(err)
	}
	return n
}

// shows compares figures: attempts and finished deliveries by outcome, and how many were measured.
func (d *desk) shows(what string, got Figures, want string) {
	d.Helper()
	var parts []string
	for _, o := range dispatcher.Outcomes() {
		if got.Attempts.Of(o)+got.Finished.Of(o) > 0 {
			parts = append(parts, fmt.Sprintf("%s %d/%d", o, got.Attempts.Of(o), got.Finished.Of(o)))
		}
	}
	parts = append(parts, fmt.Sprintf("measured %d", got.Latency.Measured))
	if text := strings.Join(parts, ", "); text != want {
		d.Errorf("%s: %s; want %s", what, text, want)
	}
}

var one, other = id.ID{Shard: 3, N: 11}, id.ID{Shard: 200, N: 12}

func TestWhatIsCountedIsShown(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	tally := d.tally()
	d.flush(tally) // of nothing
	for range 3 {
		tally.Attempt(one, dispatcher.Succeeded, 20*ms, d.now())
		tally.Finished(one, dispatcher.Succeeded, d.now())
	}
	tally.Attempt(other, dispatcher.Timeout, 15*time.Second, d.now())
	tally.Attempt(other, dispatcher.Unknown, 0, d.now()) // nobody knows how long
	d.flush(tally)
	d.shows("all", d.overview(hour, 0).Figures, "unknown 1/0, succeeded 3/3, timeout 1/0, measured 4")
	d.shows("by the hour", d.overview(10*24*hour, 0).Figures, "unknown 1/0, succeeded 3/3, timeout 1/0, measured 4")
	d.shows("one", d.endpoint(one, 24*hour).Figures, "succeeded 3/3, measured 3")
	d.shows("the other", d.endpoint(other, 24*hour).Figures, "unknown 1/0, timeout 1/0, measured 1")
	d.shows("a stranger", d.endpoint(id.ID{Shard: 3, N: 99}, hour).Figures, "measured 0")

	// Counting goes on where it was, and nothing is written that did not change.
	tally.Attempt(one, dispatcher.Succeeded, 25*ms, d.now())
	d.flush(tally)
	d.flush(tally)
	d.shows("one more", d.endpoint(one, 24*hour).Figures, "succeeded 4/3, measured 4")
	if n := d.rows("endpoint_traffic"); n != 3 {
		t.Errorf("%d counts of endpoints, want one for each endpoint and outcome", n)
	}
	if rate, known := d.overview(hour, 0).SuccessRate(); !known || rate != 4.0/6 {
		t.Errorf("success rate %v, %v", rate, known)
	}
	if rate, known := d.endpoint(id.ID{Shard: 1, N: 1}, hour).SuccessRate(); known {
		t.Errorf("success rate %v of nothing", rate)
	}
}

func TestPointsLieWhereAttemptsEnded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	tally := d.tally()
	for _, back := range []time.Duration{0, minute, minute, 50 * minute, 47 * hour} {
		tally.Attempt(one, dispatcher.Succeeded, ms, d.now().Add(-back))
	}
	d.flush(tally)
	at := func(s Series) (all []string) {
		for _, p := range s.Points {
			if n := p.Attempts.Sum(); n > 0 {
				all = append(all, fmt.Sprintf("%s %d", p.At.Format("02 15:04"), n))
			}
		}
		return all
	}
	for what, c := range map[string]struct {
		got  Series
		want []string
	}{
		"an hour by the minute": {d.overview(hour, 0), []string{"30 11:15 1", "30 12:04 2", "30 12:05 1"}},
		"an hour by ten":        {d.overview(hour, 10*minute), []string{"30 11:10 1", "30 12:00 3"}},
		"a minute":              {d.overview(minute, minute), []string{"30 12:04 2", "30 12:05 1"}},
		"two days by the hour":  {d.overview(48*hour, hour), []string{"28 13:00 1", "30 11:00 1", "30 12:00 3"}},
		"the endpoint":          {d.endpoint(one, hour), []string{"30 11:15 1", "30 12:00 3"}},
	} {
		if got := at(c.got); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}

// Two processes count the same endpoint in the same minute, and one that has come back with nothing in mind goes on.
func TestSeveralProcessesCountTogether(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	a, b := d.tally(), d.tally()
	for range 2 {
		a.Attempt(one, dispatcher.Succeeded, 10*ms, d.now())
		b.Attempt(one, dispatcher.Succeeded, 40*ms, d.now())
		b.Attempt(one, dispatcher.Rejected, 40*ms, d.now())
		d.flush(a)
		d.flush(b)
	}
	again := d.tally()
	again.Attempt(one, dispatcher.Succeeded, 10*ms, d.now())
	d.flush(again)
	for what, got := range map[string]Figures{"all": d.overview(hour, 0).Figures, "the endpoint": d.endpoint(one, hour).Figures} {
		d.shows(what, got, "succeeded 5/0, rejected 2/0, measured 7")
	}
	health, err := NewReader(d.db, d.now).EndpointsHealth(t.Context(), []id.ID{other, one, one}, d.now().Add(-24*hour))
	if err != nil || len(health) != 2 {
		t.Fatalf("%d endpoints, %v", len(health), err)
	}
	d.shows("in a list", health[one].Figures, "succeeded 5/0, rejected 2/0, measured 7")
	d.shows("beside it", health[other].Figures, "measured 0")
	if s := health[one]; s.Step != hour || len(s.Points) != 25 || s.Points[24].Attempts.Sum() != 7 {
		t.Errorf("a series of %d points, by %s", len(s.Points), s.Step)
	}
}

// What cannot be written is kept, is counted on, and is not counted twice.
func TestAFailedFlushIsMadeUpFor(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	tally := d.tally()
	count := func() { tally.Attempt(one, dispatcher.Succeeded, ms, d.now()) }
	count()
	d.flush(tally)
	if _, err := d.db.Exec(t.Context(), `ALTER TABLE endpoint_traffic RENAME TO elsewhere`); err != nil {
		t.Fatal(err)
	}
	count()
	fresh := id.ID{Shard: one.Shard, N: one.N + 1000}
	tally.Attempt(fresh, dispatcher.Gone, ms, d.now())
	for range 2 {
		if tally.flushAndTell(t.Context()) {
			t.Error("a flush into no table goes well")
		}
		count()
	}
	if got := strings.Count(d.log.String(), `"stats.write_failed"`); got != 2 {
		t.Errorf("the log: %s", d.log.String())
	}
	if _, err := d.db.Exec(t.Context(), `ALTER TABLE elsewhere RENAME TO endpoint_traffic`); err != nil {
		t.Fatal(err)
	}
	d.shows("of a flush that failed, nothing is there", d.overview(hour, 0).Figures, "succeeded 1/0, measured 1")
	d.advance(2 * hour) // the time of what is kept is over
	d.flush(tally)
	d.shows("all", d.overview(3*hour, 0).Figures, "succeeded 4/0, gone 1/0, measured 5")
	d.shows("the endpoint", d.endpoint(one, 3*hour).Figures, "succeeded 4/0, measured 4")
	d.shows("an endpoint whose first row it was", d.endpoint(fresh, 3*hour).Figures, "gone 1/0, measured 1")
	if len(tally.counts) > 0 || len(tally.dirty) > 0 {
		t.Errorf("%d counts are kept that are over and written, %d to be written", len(tally.counts), len(tally.dirty))
	}
}

// What a commit wrote whose answer did not come back is written again, to the same end.
func TestWritingTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	tally := d.tally()
	tally.Attempt(one, dispatcher.Gone, ms, d.now())
	tally.Finished(one, dispatcher.Gone, d.now())
	d.flush(tally)
	for _, c := range tally.counts {
		tally.putBack([]*count{c})
	}
	d.flush(tally)
	d.shows("all", d.overview(hour, 0).Figures, "gone 1/1, measured 1")
	d.shows("the endpoint", d.endpoint(one, hour).Figures, "gone 1/1, measured 1")
}

// Results that come late, as after a database that was away, lie in the time of their attempts, also when what was counted of it is
// no longer in memory.
func TestLateResultsJoinTheirTime(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	tally, then := d.tally(), d.now()
	tally.Attempt(one, dispatcher.Succeeded, ms, then)
	d.flush(tally)
	d.advance(2 * hour)
	d.flush(tally)
	if len(tally.counts) > 0 {
		t.Fatal("what is over is kept")
	}
	tally.Attempt(one, dispatcher.Succeeded, ms, then)
	d.flush(tally)
	s := d.overview(3*hour, hour)
	if got := s.Points[1].Attempts.Sum(); got != 2 || s.Attempts.Sum() != 2 {
		t.Errorf("%d of %d attempts are in their hour", got, s.Attempts.Sum())
	}
}

func TestAStopWritesWhatIsLeft(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	tally := d.tally()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	tally.Attempt(one, dispatcher.Succeeded, ms, d.now())
	if err := tally.Run(ctx); err != nil {
		t.Fatal(err)
	}
	d.shows("all", d.overview(hour, 0).Figures, "succeeded 1/0, measured 1")
}

// A tally that is full gives up what is written and then has room again; what it has none for is missing with endpoints alone.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	tally := d.tally()
	tally.most = 10
	for n := range int64(20) {
		tally.Attempt(id.ID{Shard: 1, N: n + 1}, dispatcher.Succeeded, ms, d.now())
	}
	if len(tally.counts) != 10 {
		t.Errorf("%d counts are kept", len(tally.counts))
	}
	if !tally.flushAndTell(t.Context()) || !strings.Contains(d.log.String(), `"attempts":13,"message":"stats.crowded"`) {
		t.Errorf("the log: %s", d.log.String())
	}
	d.shows("all", d.overview(hour, 0).Figures, "succeeded 20/0, measured 20")
	tally.Attempt(one, dispatcher.Succeeded, ms, d.now())
	d.flush(tally)
	d.shows("there is room again", d.endpoint(one, hour).Figures, "succeeded 1/0, measured 1")
	d.shows("all and one more", d.overview(hour, 0).Figures, "succeeded 21/0, measured 21")
}

// More than one statement's worth.
func TestManyEndpointsAreWrittenInPieces(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	tally := d.tally()
	for n := range int64(2*flushRows + 7) {
		tally.Attempt(id.ID{Shard: int16(n % 256), N: n + 1}, dispatcher.Succeeded, ms, d.now())
	}
	d.flush(tally)
	if n := d.rows("endpoint_traffic"); n != 2*flushRows+7 {
		t.Errorf("%d endpoints are written", n)
	}
}

//nolint:paralleltest // allocations are counted over the whole process
func TestCountingTakesNoMemory(t *testing.T) {
	d := newDesk(t)
	tally, now := d.tally(), d.now()
	count := func() {
		tally.Attempt(one, dispatcher.Succeeded, 20*ms, now)
		tally.Finished(one, dispatcher.Succeeded, now)
	}
	count()
	if n := testing.AllocsPerRun(100, count); n > 0 {
		t.Errorf("%v allocations for an attempt", n)
	}
}

func TestOldFiguresAreDeleted(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	tally := d.tally()
	for _, back := range []time.Duration{0, 47 * hour, 49 * hour, 31 * 24 * hour} {
		tally.Attempt(one, dispatcher.Succeeded, ms, d.now().Add(-back))
	}
	d.flush(tally)
	r, before := NewReader(d.db, d.now), d.now().Add(-30*24*hour)
	if n, err := r.DropOld(t.Context(), before); n != 5 || err != nil {
		t.Errorf("%d rows of all deleted, %v; want two minutes, two quarters and an hour", n, err)
	}
	if n, err := r.DropOldOfEndpoints(t.Context(), one.Shard, before); n != 1 || err != nil {
		t.Errorf("%d rows of endpoints deleted, %v", n, err)
	}
	if n, err := r.DropOldOfEndpoints(t.Context(), other.Shard, d.now()); n != 0 || err != nil {
		t.Errorf("%d rows deleted in another bucket, %v", n, err)
	}
	d.shows("the rest", d.overview(60*24*hour, 0).Figures, "succeeded 3/0, measured 3")
	d.shows("of the endpoint", d.endpoint(one, 60*24*hour).Figures, "succeeded 3/0, measured 3")
	if n, err := r.DropOld(t.Context(), d.now().Add(-hour)); n != 4 || err != nil { // kept shorter than minutes are
		t.Errorf("%d more, %v", n, err)
	}
}

func BenchmarkTally(b *testing.B) {
	now := noon
	tally := NewTally(TallyDeps{IDs: id.NewGenerator(1, func() time.Time { return now })})
	b.ReportAllocs()
	n := int64(0)
	for b.Loop() {
		n++
		e := id.ID{Shard: int16(n % 256), N: n%1000 + 1}
		tally.Attempt(e, dispatcher.Succeeded, 20*ms, now)
		tally.Finished(e, dispatcher.Succeeded, now)
	}
}
