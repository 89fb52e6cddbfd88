package dispatcher

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pgtest"
)

// Whatever each of them gives, the windows of a search cover its range without a gap and without an overlap.
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
		for seed := range uint64(20) {
			dice := rand.New(rand.NewPCG(seed, 1))
			s := search{shards: allShards, from: c.from, to: c.to}
			w := s.windows(now)
			top := min(c.to, id.Floor(now.Add(aheadOfClock)))
			if w.to != top {
				t.Fatalf("%v: begins at %d, want %d", c, w.to, top)
			}
			steps, last := 0, w.from
			for w.next(dice.IntN(60), 1+dice.IntN(50)); w.more(); w.next(dice.IntN(60), 1+dice.IntN(50)) {
				if w.to != last-1 || w.from > w.to {
					t.Fatalf("%v: after %d comes %d to %d", c, last, w.from, w.to)
				}
				last = w.from
				if steps++; steps > 10_000 {
					t.Fatalf("%v: never ends", c)
				}
			}
			if last != c.from {
				t.Errorf("%v: ends at %d", c, last)
			}
		}
	}
}

func TestOneBucketIsSearchedAtOnce(t *testing.T) {
	t.Parallel()
	s := search{shards: []int16{7}, from: 3, to: math.MaxInt64}
	w := s.windows(time.Now())
	if w.from != 3 || w.to != math.MaxInt64 {
		t.Errorf("got %+v", w)
	}
	if w.next(0, 1); w.more() {
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
	s, _, err := Filter{Query: "x"}.resolve(id.ID{})
	if err != nil {
		t.Fatal(err)
	}
	sql, args := s.sql(time.Now())
	err = pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		_, err := s.run(t.Context(), tx, time.Millisecond, sql, args)
		return err
	})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "narrow it") {
		t.Errorf("got %v", err)
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
