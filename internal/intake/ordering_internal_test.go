package intake

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/id"
)

// askIn makes a request of one event for each of the group keys, all of the same type.
func askIn(eventType string, groupKeys ...string) *request {
	r := &request{tenant: anyTenant}
	for _, key := range groupKeys {
		r.items = append(r.items, item{Event: Event{Type: eventType, GroupKey: key}})
	}
	return r
}

func wantGroups(t *testing.T, s *store, want ...[]string) {
	t.Helper()
	if got := s.had(); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("transactions %v, want %v", got, want)
	}
}

func TestAGroupIsInOneTransactionAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{gate: make(chan struct{})}
		q := newQueue(s.commit)
		another := askIn("another tenant's", "g")
		another.tenant = id.ID{Shard: 1, N: 2}
		first := send(t.Context(), q, askIn("first", "g"))
		second := send(t.Context(), q, askIn("second", "a", "g", "a")) // waits, though a flusher is free
		third := send(t.Context(), q, askIn("third", "g"))
		join()
		wantGroups(t, s, []string{"first"})
		elsewhere := send(t.Context(), q, another) // goes past them
		join()
		wantGroups(t, s, []string{"first"}, []string{"another tenant's"})
		s.gate <- struct{}{}
		synctest.Wait() // whichever of the two was let go, the other flusher cannot have begun with the group twice
		s.gate <- struct{}{}
		wantAnswer(t, first, "first", false)
		wantAnswer(t, elsewhere, "another tenant's", false)
		synctest.Wait() // those that waited go together: a group may fill a transaction
		wantGroups(t, s, []string{"first"}, []string{"another tenant's"}, []string{"second", "second", "second", "third"})
		close(s.gate)
		if a := <-second; a.err != nil || len(a.rs) != 3 {
			t.Errorf("answer %+v", a)
		}
		wantAnswer(t, third, "third", false)
		synctest.Wait()
		if len(q.held) != 0 || len(q.jobs) != 0 || q.running != 0 {
			t.Errorf("left over: %v, %d jobs, %d flushers", q.held, len(q.jobs), q.running)
		}
	})
}

// A transaction that is done again in halves gives its group free only when the last of it is done.
func TestAGroupIsHeldUntilTheLastHalfIsDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		s.fail = func(types []string, _ time.Duration) error {
			if len(types) > 1 {
				return fmt.Errorf("store events: %w", &pgconn.PgError{Code: "22P02"})
			}
			return nil
		}
		q := newQueue(s.commit)
		occupied := occupy(t, q, s)
		a, b := send(t.Context(), q, askIn("a", "g")), send(t.Context(), q, askIn("b", "g"))
		for range 4 { // both that occupy, the two together, the first alone
			s.gate <- struct{}{}
			synctest.Wait()
		}
		for n, got := range occupied {
			wantAnswer(t, got, []string{"first", "second"}[n], false)
		}
		wantAnswer(t, a, "a", false)
		c := send(t.Context(), q, askIn("c", "g"))
		wantGroups(t, s, []string{"first"}, []string{"second"}, []string{"a", "b"}, []string{"a"}, []string{"b"})
		close(s.gate)
		wantAnswer(t, b, "b", false)
		wantAnswer(t, c, "c", false)
	})
}

func TestGroupNumber(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int64{ // the first 16 digits of printf %s order-1 | sha256sum, and of others
		"order-1": 0xbafe22156d2698c,
		"order-2": 0x3d5e3106cd72ba03,
		"Zürich":  0x4251685e06cab635,
	} {
		if got := groupNumber(key); got != want {
			t.Errorf("%s: %#x, want %#x", key, uint64(got), uint64(want))
		}
	}
	const own = 77
	for _, test := range []struct {
		target target
		key    string
		want   int64
	}{
		{target{}, "order-1", 0},
		{target{}, "", 0},
		{target{ordered: true}, "", own},
		{target{ordered: true}, "order-1", 0xbafe22156d2698c},
	} {
		if got := test.target.group(test.key, own); got != test.want {
			t.Errorf("%+v: %d", test, got)
		}
	}
}
