package intake

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

const (
	// flushers and groupEvents are the figures that were measured: two transactions at a time, up to 500 events in each.
	flushers    = 2
	groupEvents = 500
	groupBytes  = 8 << 20 // of payloads in one transaction, so that large ones do not hold up small ones

	// A transaction by itself costs about as much as 20 events in it, so two small ones cost more than one twice as large:
	// with 64 callers a quarter of all that their requests cost. The second flusher therefore joins only when half a group
	// waits, or when somebody has waited this long because the first is held up.
	joinEvents = groupEvents / 2
	joinAfter  = 10 * time.Millisecond

	// What may wait, so that a store that hangs does not fill the memory: beyond it callers are refused at once.
	queueJobs  = 10_000
	queueBytes = 256 << 20
)

// job is a request in the queue, for one caller or for several that ask for the very same thing.
type job struct {
	*request
	names   []keyRef
	groups  []groupRef
	since   time.Time // when it came
	callers int       // those still waiting for the answer; guarded by queue.mu
	taken   bool      // guarded by queue.mu

	done    chan struct{} // closed when verdict is set
	verdict verdict
}

// sameness is what makes two requests the very same thing.
type sameness struct {
	tenant    id.ID
	tenantUID string
	key       string
	digest    digest
}

func (r *request) sameness() sameness { return sameness{r.tenant, r.tenantUID, r.key, r.digest} }

// queue gathers requests into transactions. Nobody waits for others to come: while one transaction is committed, the next
// requests gather, so a single one goes at once and many go together. It has goroutines only while there is work.
//
// Requests with the same idempotency key are never in two transactions of this process at once: the very same ones share
// one job, others wait for each other here rather than on a lock in the database, where they would hold up their group.
// Events of one group_key may share a transaction, but are never in two at once either: see ordering.go.
type queue struct {
	settler
	work   sync.WaitGroup
	cancel context.CancelFunc

	mu      sync.Mutex
	jobs    []*job
	bytes   int
	events  int  // of the jobs that wait
	running int  // flushers
	looking bool // a timer runs after which start is called again
	same    map[sameness]*job
	busy    map[keyRef]bool  // of the jobs that are taken
	held    map[groupRef]int // how many jobs of each group are taken
	closed  bool
}

// do has a request carried out, and returns when it is, or when ctx is over. A request that was not begun by then is
// dropped.
func (q *queue) do(ctx context.Context, r *request) (rs []Receipt, replayed bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, fault.Wrap(fault.Unavailable, err, "the request was given up; nothing was done")
	}
	j, joined, err := q.enter(r)
	if err != nil {
		return nil, false, err
	}
	select {
	case <-j.done:
		v := j.verdict
		if v.err != nil {
			return nil, false, v.err
		}
		return append([]Receipt(nil), v.receipts...), v.replayed || joined, nil
	case <-ctx.Done():
		if q.leave(j) {
			return nil, false, fault.Wrap(fault.Unavailable, ctx.Err(), "the request was given up; nothing was done")
		}
		return nil, false, fault.Wrap(fault.Unavailable, ctx.Err(),
			"the request was given up while it was being stored; repeat it with the same Idempotency-Key to find out")
	}
}

// enter puts the request into the queue, or joins the caller to a job for the very same thing.
func (q *queue) enter(r *request) (_ *job, joined bool, err error) {
	var names []keyRef
	for _, c := range r.claims() {
		names = append(names, c.keyRef)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, false, fault.New(fault.Unavailable, "shutting down; nothing was done")
	}
	if j := q.same[r.sameness()]; j != nil && len(names) > 0 {
		j.callers++
		return j, true, nil
	}
	if len(q.jobs) > 0 && (len(q.jobs) >= queueJobs || q.bytes+r.bytes > queueBytes) {
		return nil, false, fault.New(fault.Unavailable, "too many events are waiting to be stored; nothing was done")
	}
	j := &job{request: r, names: names, groups: r.groups(), since: time.Now(), callers: 1, done: make(chan struct{})}
	if len(names) > 0 {
		q.same[r.sameness()] = j
	}
	q.jobs = append(q.jobs, j)
	q.bytes += r.bytes
	q.events += len(r.items)
	q.start()
	return j, false, nil
}

// leave takes a caller's interest back, and reports whether the job had not been begun.
func (q *queue) leave(j *job) (untouched bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.callers--
	return !j.taken
}

// start makes a flusher unless there are enough. The caller holds mu.
func (q *queue) start() {
	switch {
	case len(q.jobs) == 0 || q.running == flushers:
		return
	case q.running > 0 && q.events < joinEvents && q.bytes < groupBytes:
		if left := joinAfter - time.Since(q.jobs[0].since); left > 0 {
			q.lookAgain(left)
			return
		}
	}
	q.running++
	q.work.Go(func() {
		for group := q.take(); len(group) > 0; group = q.take() {
			q.settle(group)
		}
	})
}

// lookAgain calls start in a while, unless somebody does that already. The caller holds mu.
func (q *queue) lookAgain(after time.Duration) {
	if q.looking {
		return
	}
	q.looking = true
	time.AfterFunc(after, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.looking = false
		q.start()
	})
}

// take gives the next jobs to be committed together, in the order of arrival but for those that wait for another with
// their key or group. None ends the flusher: what is left then waits for a job that is being worked on, and finish starts
// a flusher for it.
func (q *queue) take() []*job {
	q.mu.Lock()
	defer q.mu.Unlock()
	var group, left []*job
	events, bytes := 0, 0
	own := map[groupRef]int{} // of held, what this very take holds
	for n, j := range q.jobs {
		if j.callers == 0 {
			q.forget(j)
			q.events -= len(j.items)
			continue
		}
		if len(group) > 0 && (events+len(j.items) > groupEvents || bytes+j.bytes > groupBytes) {
			left = append(left, q.jobs[n:]...)
			break
		}
		if q.blocked(j, own) {
			left = append(left, j)
			continue
		}
		j.taken = true
		for _, name := range j.names {
			q.busy[name] = true
		}
		for _, g := range j.groups {
			q.held[g]++
			own[g]++
		}
		group = append(group, j)
		q.events -= len(j.items)
		events, bytes = events+len(j.items), bytes+j.bytes
	}
	q.jobs = left
	if len(group) == 0 {
		q.running--
	}
	return group
}

// blocked reports whether a job has to wait for one that is taken: for any with one of its keys, and for one with one of
// its groups that goes by another transaction.
func (q *queue) blocked(j *job, own map[groupRef]int) bool {
	for _, name := range j.names {
		if q.busy[name] {
			return true
		}
	}
	for _, g := range j.groups {
		if q.held[g] > own[g] {
			return true
		}
	}
	return false
}

// forget takes a job that is done with out of the books. The caller holds mu.
func (q *queue) forget(j *job) {
	q.bytes -= j.bytes
	if q.same[j.sameness()] == j {
		delete(q.same, j.sameness())
	}
}

// finish answers all callers of jobs. From then on nobody joins them: who repeats a call that failed is not to get that very
// failure again.
func (q *queue) finish(jobs []*job, verdictOf func(n int) verdict) {
	q.settled(jobs)
	for n, j := range jobs {
		j.verdict = verdictOf(n)
		close(j.done)
	}
}

// settled takes jobs out of the books, and what waited for them goes on.
func (q *queue) settled(jobs []*job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range jobs {
		q.forget(j)
		for _, name := range j.names {
			delete(q.busy, name)
		}
		for _, g := range j.groups {
			if q.held[g]--; q.held[g] == 0 {
				delete(q.held, g)
			}
		}
	}
	q.start()
}

// finishOne answers all callers of one job.
func (q *queue) finishOne(j *job, v verdict) {
	q.finish([]*job{j}, func(int) verdict { return v })
}

func (q *queue) close(ctx context.Context) error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	done := make(chan struct{})
	go func() {
		q.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		q.cancel()
		return nil
	case <-ctx.Done():
		q.cancel()
		<-done // what is going on breaks off at once
		return fmt.Errorf("store the last events: %w", ctx.Err())
	}
}
