package stats

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/id"
)

// mostCounts bounds what a Tally keeps, some 35 MB: an endpoint whose attempts all end alike has one count in a quarter of an hour.
// What is written down makes room when it is needed; what still finds none is missing in the figures of its endpoint, and only there.
const mostCounts = 100_000

// spans are how finely the traffic of all is counted.
var spans = [...]time.Duration{minute, quarter, hour}

// place is what a count is of.
type place struct {
	endpoint id.ID // zero: of all of them
	span     time.Duration
	starts   int64 // Unix seconds
	outcome  dispatcher.Outcome
}

// key is a place in the form that a map finds fastest: all but the endpoint's number in one word.
type key struct{ endpoint, rest int64 }

func (p *place) key() key {
	return key{p.endpoint.N, p.starts<<24 | int64(p.endpoint.Shard)<<16 | int64(p.span/minute)<<8 | int64(p.outcome)}
}

func (p *place) over(now time.Time) bool {
	return now.Sub(time.Unix(p.starts, 0)) >= p.span
}

// count is what one place has come to since this count of it was begun. Its number makes its row its own, so a place may be
// counted anew at any time: by another process, or after its count was dropped.
type count struct {
	place
	id                 int64
	attempts, finished int32
	latency            [buckets]int32
	dirty              bool // it stands in Tally.dirty: there is more than was written
	stored             bool // its row is there, or may be
}

// TallyDeps is what a Tally works with.
type TallyDeps struct {
	DB  *pgxpool.Pool
	IDs *id.Generator
	Now func() time.Time // the database's clock
	Log zerolog.Logger
}

// Tally counts the attempts that one process has recorded. To count one costs some 200 ns and, once the endpoint
// is known, no memory.
type Tally struct {
	deps TallyDeps
	most int

	mu     sync.Mutex
	counts map[key]*count
	recent [3][dispatcher.OutcomeCount]*count // of all endpoints, the last of each of spans that something was counted in
	dirty  []*count                           // what there is more of than is written
	spare  []*count                           // dropped, to be used again
	missed atomic.Int64                       // attempts that found no room

	writing sync.Mutex
	taken   []*count // what is being written
	idle    []*count // what dirty was before, for its memory
	swept   time.Time
}

// NewTally makes a tally. Whoever makes one runs it, else nothing is ever written.
func NewTally(deps TallyDeps) *Tally {
	return &Tally{deps: deps, most: mostCounts, counts: map[key]*count{}}
}

// Attempt counts an attempt that is recorded. It took 0 if nobody knows how long.
func (t *Tally) Attempt(endpoint id.ID, outcome dispatcher.Outcome, took time.Duration, ended time.Time) {
	at := bucketOf(took)
	found := t.each(endpoint, outcome, ended, func(c *count) {
		c.attempts++
		if took > 0 {
			c.latency[at]++
		}
	})
	if !found {
		t.missed.Add(1)
	}
}

// Finished counts a delivery that has succeeded or failed for good, with an attempt of that outcome.
func (t *Tally) Finished(endpoint id.ID, outcome dispatcher.Outcome, ended time.Time) {
	t.each(endpoint, outcome, ended, func(c *count) { c.finished++ })
}

// each has act change all that something counts for. found says whether the endpoint's own count is among that.
func (t *Tally) each(endpoint id.ID, outcome dispatcher.Outcome, ended time.Time, act func(*count)) (found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := ended.Unix()
	for i, span := range spans {
		act(t.ofAll(&t.recent[i][outcome], span, outcome, at))
	}
	c := t.count(placeOf(endpoint, quarter, outcome, at))
	if c != nil {
		act(c)
	}
	return c != nil
}

// ofAll is count for what nearly always is where the last one was.
func (t *Tally) ofAll(last **count, span time.Duration, outcome dispatcher.Outcome, at int64) *count {
	if c := *last; c != nil && at >= c.starts && at < c.starts+int64(span/time.Second) {
		t.mark(c)
		return c
	}
	*last = t.count(placeOf(id.ID{}, span, outcome, at))
	return *last
}

// placeOf gives the place of what ended at a time, in Unix seconds.
func placeOf(endpoint id.ID, span time.Duration, outcome dispatcher.Outcome, at int64) place {
	return place{endpoint: endpoint, span: span, starts: at - at%int64(span/time.Second), outcome: outcome}
}

// count gives the count of a place, and has it written down. It is nil if there is no room for it, which there always is for
// those of all endpoints.
func (t *Tally) count(p place) *count {
	k := p.key()
	c := t.counts[k]
	if c == nil {
		if len(t.counts) >= t.most && !p.endpoint.IsZero() {
			return nil
		}
		c = t.take()
		c.place, c.id = p, t.deps.IDs.Next()
		t.counts[k] = c
	}
	t.mark(c)
	return c
}

// mark has a count written down.
func (t *Tally) mark(c *count) {
	if !c.dirty {
		c.dirty = true
		t.dirty = append(t.dirty, c)
	}
}

// take gives a count at zero.
func (t *Tally) take() *count {
	n := len(t.spare)
	if n == 0 {
		return &count{}
	}
	c := t.spare[n-1]
	t.spare = t.spare[:n-1]
	*c = count{}
	return c
}

// sweep drops counts that are written down: those whose time is over, once a minute, and all of them when room is short.
func (t *Tally) sweep(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	full := len(t.counts) >= t.most
	if !full && now.Sub(t.swept).Abs() < minute {
		return
	}
	t.swept = now
	clear(t.recent[:])
	for k, c := range t.counts {
		if !c.dirty && (full || c.over(now)) {
			delete(t.counts, k)
			t.spare = append(t.spare, c)
		}
	}
}

const (
	// A tally rests after it has written, flushRest times as long as that took, so that it has a hundredth of a connection's time at
	// most, and flushPerRow for each row that it would write now, so that the write-ahead log hardly grows by it: what is written
	// again each second is log each second. With few endpoints the figures are a second old.
	flushRest      = 100
	flushPerRow    = 50 * time.Millisecond
	flushSoonest   = time.Second
	flushLatest    = time.Minute
	flushAfterFail = 5 * time.Second
	flushPatience  = 10 * time.Second
)

// Run writes the counts down until ctx ends, and then what is left.
func (t *Tally) Run(ctx context.Context) error {
	tick := time.NewTicker(flushSoonest)
	defer tick.Stop()
	var took time.Duration
	for ended := time.Now(); ; {
		select {
		case <-ctx.Done():
			t.flushAndTell(context.WithoutCancel(ctx))
			return nil
		case <-tick.C:
		}
		begun := time.Now()
		if begun.Sub(ended) < restAfter(took, t.waiting()) {
			continue
		}
		ok := t.flushAndTell(ctx)
		ended = time.Now()
		if took = ended.Sub(begun); !ok {
			took = max(took, flushAfterFail/flushRest)
		}
	}
}

// waiting says how many rows a flush would write.
func (t *Tally) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.dirty)
}

// restAfter says how long to rest after a flush that took so long, when the next is of so many rows.
func restAfter(took time.Duration, rows int) time.Duration {
	return min(max(flushRest*took, time.Duration(rows)*flushPerRow, flushSoonest), flushLatest)
}

// flushAndTell writes the counts down, or has the log say why not, and reports which.
func (t *Tally) flushAndTell(ctx context.Context) bool {
	flushing, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	err := t.Flush(flushing)
	if err != nil && ctx.Err() == nil {
		t.deps.Log.Warn().Err(err).Msg("stats.write_failed")
	}
	if missed := t.missed.Swap(0); missed > 0 {
		t.deps.Log.Warn().Int64("attempts", missed).Msg("stats.crowded")
	}
	return err == nil
}
