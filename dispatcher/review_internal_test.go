package dispatcher

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pgtest"
)

// Whatever each of them gives and however long it takes, the windows of a search cover its range without a gap and without an
// overlap.
func TestWindowsCoverTheRangeOnce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ from, to int64 }{
		{0, math.MaxInt64},
		{id.Floor(now.Add(-time.Minute)), math.MaxInt64},
		{0, id.Floor(now.Add(-time.Hour)) - 1},
		{id.Floor(now) - 5, id.Floor(now) - 5},
		{7, 9},
		{id.Floor(now.Add(30 * time.Minute)), math.MaxInt64},
	} {
		for seed := range uint64(60) {
			dice := rand.New(rand.NewPCG(seed, 1))
			s := search{shards: allShards, from: c.from, to: c.to, way: []way{everyBucket, byType, byPayload, byUnhappy}[seed%4]}
			w := s.walk(now, firstWindow)
			next := w.to
			for steps := 0; w.more(); steps++ {
				for dice.IntN(4) == 0 && w.narrow() {
				}
				if top := min(next, id.Floor(now.Add(aheadOfClock))); w.to != next && w.to != top || w.from > w.to || w.from < c.from {
					t.Fatalf("%v: before %d comes %d to %d", c, next, w.from, w.to)
				}
				if steps > 10_000 {
					t.Fatalf("%v: never ends", c)
				}
				next = w.from - 1
				took := time.Duration(dice.IntN(10)) * time.Millisecond
				w.next(dice.IntN(60), 1+dice.IntN(50), took, searchBudget-took)
			}
			if next != c.from-1 {
				t.Errorf("%v: ends at %d", c, next+1)
			}
		}
	}
}

func TestWhatIsNamedIsLookedForAtOnce(t *testing.T) {
	t.Parallel()
	s := search{shards: []int16{7}, from: 3, to: math.MaxInt64, way: byID}
	w := s.walk(time.Now(), firstWindow)
	if w.from != 3 || w.to != math.MaxInt64 {
		t.Errorf("got %+v", w)
	}
	if w.next(0, 1, 0, 0); w.more() {
		t.Errorf("there is more: %+v", w)
	}
}

// A search ends when its time is up, however long its tables keep it waiting, and says what to do.
func TestASearchThatTakesTooLongSaysSo(t *testing.T) {
	t.Parallel()
	db := pgtest.Pool(t)
	locked, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer locked.Rollback(t.Context())
	if _, err := locked.Exec(t.Context(), `LOCK TABLE deliveries_finished`); err != nil {
		t.Fatal(err)
	}
	desk := NewDesk(DeskDeps{DB: db, Now: time.Now})
	for name, f := range map[string]Filter{"from a little on": {Query: "x"}, "by an index": {States: []State{StateFailed}}, "at once": {Event: &id.ID{N: 7}}} {
		_, err = desk.search(t.Context(), f, 10, id.ID{}, allowance{budget: time.Millisecond, first: firstWindow, most: time.Millisecond})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "narrow it") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestParseFieldLinesTakesWhateverComes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                     "[]",
		"A: 1\r\nB:2\r\n":                      `[{"A" "1"} {"B" "2"}]`,
		"A: 1\nB: 2":                           `[{"A" "1"} {"B" "2"}]`,
		"A: x:y : z \r\n":                      `[{"A" "x:y : z"}]`,
		"A:\r\n\r\nB: 2\r\n":                   `[{"A" ""} {"B" "2"}]`,
		"A: 1\r\n  more\r\n\tand more\r\n":     `[{"A" "1 more and more"}]`,
		"  leading\r\n":                        `[{"leading" ""}]`,
		"no colon\r\n: no name\r\n":            `[{"no colon" ""} {"" "no name"}]`,
		"X: <script>\x00\r\n":                  `[{"X" "<script>\x00"}]`,
		"X: caf\xe9\r\n":                       `[{"X" "caf\ufffd"}]`,
		"Set-Cookie: a\r\nSet-Cookie: b\r\n\n": `[{"Set-Cookie" "a"} {"Set-Cookie" "b"}]`,
	} {
		if got := fmt.Sprintf("%+q", parseFieldLines([]byte(in))); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func FuzzParseFieldLines(f *testing.F) {
	f.Add([]byte("A: 1\r\n b\r\n\xff: \x00"))
	f.Fuzz(func(t *testing.T, lines []byte) {
		for _, h := range parseFieldLines(lines) {
			if strings.ContainsAny(h.Name+h.Value, "\n") || strings.ToValidUTF8(h.Name+h.Value, "") != h.Name+h.Value {
				t.Errorf("%q gives %q", lines, h)
			}
		}
	})
}
