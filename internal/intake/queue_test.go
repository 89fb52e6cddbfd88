package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

// store stands in for the transaction: it records the groups, holds them at the gate while there is one, and fails as it
// is told.
type store struct {
	mu     sync.Mutex
	groups [][]string // the types of the events of each group
	gate   chan struct{}
	fail   func(types []string, patience time.Duration) error
}

func (s *store) commit(ctx context.Context, reqs []*request, patience time.Duration) ([]verdict, error) {
	var types []string
	for _, r := range reqs {
		for _, it := range r.items {
			types = append(types, it.Type)
		}
	}
	s.mu.Lock()
	s.groups = append(s.groups, types)
	s.mu.Unlock()
	if s.gate != nil {
		select {
		case <-s.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if s.fail != nil {
		if err := s.fail(types, patience); err != nil {
			return nil, err
		}
	}
	verdicts := make([]verdict, len(reqs))
	for n, r := range reqs {
		verdicts[n].receipts = make([]Receipt, len(r.items))
		for m, it := range r.items {
			verdicts[n].receipts[m].Type = it.Type
		}
	}
	return verdicts, nil
}

func (s *store) had() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.groups)
}

var anyTenant = id.ID{Shard: 1, N: 1}

// ask makes a request of one event; the key may be "".
func ask(eventType, key string) *request {
	r := &request{tenant: anyTenant, key: key, items: []item{{Event: Event{Type: eventType}}}}
	r.items[0].digest = r.items[0].sum()
	r.digest = digestOf(r.items)
	return r
}

type answer struct {
	rs       []Receipt
	replayed bool
	err      error
}

// send asks in the background.
func send(ctx context.Context, q *queue, r *request) <-chan answer {
	got := make(chan answer, 1)
	go func() {
		rs, replayed, err := q.do(ctx, r)
		got <- answer{rs, replayed, err}
	}()
	synctest.Wait()
	return got
}

func wantAnswer(t *testing.T, got <-chan answer, eventType string, replayed bool) {
	t.Helper()
	a := <-got
	if a.err != nil || len(a.rs) != 1 || a.rs[0].Type != eventType || a.replayed != replayed {
		t.Errorf("answer %+v, want %s, replayed %v", a, eventType, replayed)
	}
}

func wantUnavailable(t *testing.T, got <-chan answer) error {
	t.Helper()
	a := <-got
	if !fault.Is(a.err, fault.Unavailable) {
		t.Errorf("answer %+v, want unavailable", a)
	}
	return a.err
}

// occupy keeps both flushers busy, so that what comes next gathers.
func occupy(t *testing.T, q *queue, s *store) []<-chan answer {
	t.Helper()
	s.gate = make(chan struct{})
	both := []<-chan answer{send(t.Context(), q, ask("first", "")), send(t.Context(), q, ask("second", ""))}
	join()
	return both
}

// join lets the time go by after which the second flusher joins.
func join() { pass(joinAfter) }

// pass lets time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// A second transaction at a time is for when it pays: half a group waits, or somebody for too long.
func TestTheSecondFlusherJoinsWhenItPays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{gate: make(chan struct{})}
		q := newQueue(s.commit)
		all := []<-chan answer{send(t.Context(), q, ask("a", "")), send(t.Context(), q, ask("b", ""))}
		pass(joinAfter / 2)
		all = append(all, send(t.Context(), q, ask("c", "")))
		pass(joinAfter/2 - 1)
		if n := len(s.had()); n != 1 {
			t.Errorf("%d transactions before the time", n)
		}
		pass(1)
		if groups := s.had(); !slices.EqualFunc(groups, [][]string{{"a"}, {"b", "c"}}, slices.Equal) {
			t.Errorf("groups %v", groups)
		}
		close(s.gate)
		for n, got := range all {
			wantAnswer(t, got, string(rune('a'+n)), false)
		}
		s.gate = make(chan struct{})
		first := send(t.Context(), q, ask("first", ""))
		half := ask("half", "")
		half.items = slices.Repeat(half.items, joinEvents)
		large := send(t.Context(), q, half)
		if n := len(s.had()); n != 4 {
			t.Errorf("%d transactions, though half a group waits", n)
		}
		close(s.gate)
		wantAnswer(t, first, "first", false)
		if a := <-large; a.err != nil {
			t.Error(a.err)
		}
		synctest.Wait()
		if q.events != 0 || q.running != 0 {
			t.Errorf("left over: %d events, %d flushers", q.events, q.running)
		}
	})
}

func TestWhatComesTogetherIsCommittedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		q := newQueue(s.commit)
		all := occupy(t, q, s)
		for n := range 20 {
			all = append(all, send(t.Context(), q, ask(fmt.Sprint(n), "")))
		}
		close(s.gate)
		for n, got := range all[2:] {
			wantAnswer(t, got, fmt.Sprint(n), false)
		}
		if groups := s.had(); len(groups) != 3 || len(groups[2]) != 20 {
			t.Errorf("groups %v", groups)
		}
		synctest.Wait()
		if q.running != 0 || len(q.jobs) != 0 || q.bytes != 0 {
			t.Errorf("left over: %d flushers, %d jobs, %d bytes", q.running, len(q.jobs), q.bytes)
		}
	})
}

func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		q := newQueue(s.commit)
		all := occupy(t, q, s)
		for range 3 {
			r := ask("batch", "")
			r.items = slices.Repeat(r.items, 300)
			all = append(all, send(t.Context(), q, r))
		}
		for range 3 {
			r := ask("large", "")
			r.bytes = groupBytes/2 + 1
			all = append(all, send(t.Context(), q, r))
		}
		close(s.gate)
		for _, got := range all {
			if a := <-got; a.err != nil {
				t.Error(a.err)
			}
		}
		synctest.Wait()
		var sizes []int
		for _, g := range s.had()[2:] {
			sizes = append(sizes, len(g))
		}
		slices.Sort(sizes)
		if !slices.Equal(sizes, []int{1, 1, 300, 300, 301}) || q.bytes != 0 {
			t.Errorf("sizes of the groups: %v, %d bytes left", sizes, q.bytes)
		}
	})
}

func badEvent(types []string, _ time.Duration) error {
	if slices.Contains(types, "bad") {
		return fmt.Errorf("store events: %w", &pgconn.PgError{Code: "22P02"})
	}
	return nil
}

func TestOneBadRequestFailsAlone(t *testing.T) {
	t.Parallel()
	for place := range 9 {
		synctest.Test(t, func(t *testing.T) {
			s := &store{fail: badEvent}
			q := newQueue(s.commit)
			occupy(t, q, s)
			var all []<-chan answer
			for n := range 9 {
				eventType := "good"
				if n == place {
					eventType = "bad"
				}
				all = append(all, send(t.Context(), q, ask(eventType, "")))
			}
			close(s.gate)
			for n, got := range all {
				if n != place {
					wantAnswer(t, got, "good", false)
				} else if a := <-got; !fault.Is(a.err, fault.Invalid) {
					t.Errorf("the bad one: %+v", a)
				}
			}
			stored := 0
			for _, g := range s.had() {
				if !slices.Contains(g, "bad") {
					stored += len(g)
				}
			}
			if stored != 10 {
				t.Errorf("%d good events were stored, want each once", stored)
			}
		})
	}
}

func TestWhenTheStoreIsAwayNobodyIsTriedAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{fail: func([]string, time.Duration) error { return fault.New(fault.Unavailable, "away") }}
		q := newQueue(s.commit)
		all := occupy(t, q, s)
		for n := range 20 {
			all = append(all, send(t.Context(), q, ask("t", fmt.Sprint(n))))
		}
		close(s.gate)
		for _, got := range all {
			wantUnavailable(t, got)
		}
		if n := len(s.had()); n != 3 {
			t.Errorf("%d transactions were tried, want 3", n)
		}
	})
}

func TestTheSameRequestIsOneJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{gate: make(chan struct{})}
		q := newQueue(s.commit)
		first := send(t.Context(), q, ask("t", "k")) // it is being committed when the others come
		var others []<-chan answer
		for range 10 {
			others = append(others, send(t.Context(), q, ask("t", "k")))
		}
		keyless := []<-chan answer{send(t.Context(), q, ask("t", "")), send(t.Context(), q, ask("t", ""))}
		close(s.gate)
		wantAnswer(t, first, "t", false)
		for _, got := range others {
			wantAnswer(t, got, "t", true)
		}
		for _, got := range keyless { // without a key, the same twice is two
			wantAnswer(t, got, "t", false)
		}
		stored := 0
		for _, g := range s.had() {
			stored += len(g)
		}
		if stored != 3 {
			t.Errorf("stored %v", s.had())
		}
	})
}

func TestOneKeyIsInOneTransactionAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{gate: make(chan struct{})}
		q := newQueue(s.commit)
		a, b := send(t.Context(), q, ask("a", "k")), send(t.Context(), q, ask("b", "k"))
		c := send(t.Context(), q, ask("c", "another")) // goes past the one that waits
		join()
		if groups := s.had(); !slices.EqualFunc(groups, [][]string{{"a"}, {"c"}}, slices.Equal) {
			t.Errorf("under way: %v", groups)
		}
		s.gate <- struct{}{}
		s.gate <- struct{}{}
		wantAnswer(t, a, "a", false)
		wantAnswer(t, c, "c", false)
		close(s.gate)
		wantAnswer(t, b, "b", false)
	})
}

func TestAKeyHeldByOthersHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var release sync.WaitGroup
		release.Add(1)
		lockTimeout := fault.Wrap(fault.Unavailable, &pgconn.PgError{Code: "55P03"}, "busy")
		s := &store{fail: func(types []string, patience time.Duration) error {
			if !slices.Contains(types, "held") {
				return nil
			}
			if patience == lonePatience {
				release.Wait()
				return nil
			}
			return lockTimeout
		}}
		q := newQueue(s.commit)
		all := occupy(t, q, s)
		for n := range 8 {
			all = append(all, send(t.Context(), q, ask(fmt.Sprint(n), fmt.Sprint(n))))
		}
		var held []<-chan answer
		for n := range lane {
			held = append(held, send(t.Context(), q, ask("held", fmt.Sprint("held", n))))
		}
		close(s.gate)
		for _, got := range all {
			if a := <-got; a.err != nil {
				t.Error(a.err)
			}
		}
		synctest.Wait() // by now each of the held ones waits alone
		wantUnavailable(t, send(t.Context(), q, ask("held", "one too many")))
		release.Done()
		for _, got := range held {
			wantAnswer(t, got, "held", false)
		}
		s.fail = func([]string, time.Duration) error { return lockTimeout }
		wantUnavailable(t, send(t.Context(), q, ask("held", "for ever")))
	})
}

func TestACallerGoesWhileItsRequestWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		q := newQueue(s.commit)
		occupy(t, q, s)
		ctx, cancel := context.WithCancel(t.Context())
		gone := send(ctx, q, ask("gone", "k"))
		both := send(ctx, q, ask("both", "b"))
		stays := send(t.Context(), q, ask("both", "b"))
		cancel()
		for _, got := range []<-chan answer{gone, both} {
			if err := wantUnavailable(t, got); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		}
		close(s.gate)
		wantAnswer(t, stays, "both", true)
		again := send(t.Context(), q, ask("gone", "k"))
		wantAnswer(t, again, "gone", false)
		count := 0
		for _, g := range s.had() {
			for _, eventType := range g {
				if eventType == "gone" {
					count++
				}
			}
		}
		if count != 1 || q.bytes != 0 || len(q.same) != 0 || len(q.busy) != 0 {
			t.Errorf("stored %v; the books: %d bytes, %v, %v", s.had(), q.bytes, q.same, q.busy)
		}
	})
}

func TestACallerGoesWhileItsRequestIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{gate: make(chan struct{})}
		q := newQueue(s.commit)
		ctx, cancel := context.WithCancel(t.Context())
		got := send(ctx, q, ask("t", "k"))
		cancel()
		if err := wantUnavailable(t, got); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		again := send(t.Context(), q, ask("t", "k"))
		close(s.gate)
		wantAnswer(t, again, "t", true)
		wantUnavailable(t, send(ctx, q, ask("not even begun", "")))
		if n := len(s.had()); n != 1 {
			t.Errorf("%d transactions", n)
		}
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		q := newQueue(s.commit)
		occupy(t, q, s)
		huge := ask("huge", "")
		huge.bytes = queueBytes + 1 // alone it may come
		first := send(t.Context(), q, huge)
		small := ask("small", "")
		small.bytes = 1
		wantUnavailable(t, send(t.Context(), q, small))
		close(s.gate)
		wantAnswer(t, first, "huge", false)
		wantAnswer(t, send(t.Context(), q, small), "small", false)
	})
}

func TestCloseDrains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		q := newQueue(s.commit)
		all := occupy(t, q, s)
		for n := range 10 {
			all = append(all, send(t.Context(), q, ask("t", fmt.Sprint(n))))
		}
		closed := make(chan error)
		go func() { closed <- q.close(t.Context()) }()
		synctest.Wait()
		wantUnavailable(t, send(t.Context(), q, ask("late", "")))
		close(s.gate)
		for _, got := range all {
			if a := <-got; a.err != nil {
				t.Error(a.err)
			}
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

func TestCloseBreaksOffWhatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		q := newQueue(s.commit)
		all := occupy(t, q, s)
		all = append(all, send(t.Context(), q, ask("t", "k")))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		for _, got := range all {
			wantUnavailable(t, got)
		}
	})
}

func TestAStoreThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{gate: make(chan struct{})}
		q := newQueue(s.commit)
		before := time.Now()
		a := <-send(t.Context(), q, ask("t", ""))
		if a.err == nil || time.Since(before) != commitTimeout {
			t.Errorf("answer %+v after %v", a, time.Since(before))
		}
	})
}

// Our own code panics over one event: its caller alone hears of it, and the process lives on.
func TestPanicFailsItsOwnRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{fail: func(types []string, _ time.Duration) error {
			if slices.Contains(types, "spoilt") {
				panic("over this one")
			}
			return nil
		}}
		q := newQueue(s.commit)
		defer func() { _ = q.close(t.Context()) }()
		var wg sync.WaitGroup
		for _, name := range []string{"a", "spoilt", "b"} {
			wg.Go(func() {
				_, _, err := q.do(t.Context(), ask(name, ""))
				if (name == "spoilt") != (err != nil) || err != nil && fault.CodeOf(err) != fault.Internal {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		wg.Wait()
	})
}
