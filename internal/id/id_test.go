package id_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
)

func TestParseTakesWhatFormatWrites(t *testing.T) {
	t.Parallel()
	for _, want := range []id.ID{{Shard: 0, N: 1}, {Shard: 255, N: 1<<63 - 1}, {Shard: 16, N: 123456789012345}} {
		s := id.Event.Format(want)
		got, err := id.Event.Parse(s)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
}

func TestParseRefusesEverythingElse(t *testing.T) {
	t.Parallel()
	good := id.Event.Format(id.ID{Shard: 7, N: 42})
	for _, s := range []string{
		"", "evt_", good + "0", good[:len(good)-1], "dlv_" + good[4:], strings.ToUpper(good),
		"evt_" + strings.Repeat("z", 13) + "00", "evt_" + strings.Repeat("0", 13) + "00", "evt_00000000000l100",
		good[:len(good)-1] + "g", " " + good,
	} {
		if got, err := id.Event.Parse(s); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", s, got)
		}
	}
}

func TestOrderOfNumbersAndOfStringsIsOrderOfTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	g := id.NewGenerator(3, func() time.Time { return now })
	var spelled []string
	for i := range 10_000 { // runs past the 4,096 of one millisecond
		if i == 6000 {
			now = now.Add(-time.Hour) // a clock that goes back
		}
		spelled = append(spelled, id.Delivery.Format(g.In(9)))
	}
	if !slices.IsSorted(spelled) || len(slices.Compact(slices.Clone(spelled))) != len(spelled) {
		t.Error("ids repeat or go back")
	}
}

func TestNodesKeepApartWhatOneMillisecondHolds(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }
	seen := map[int64]bool{}
	for node := range id.MaxNode + 1 {
		g := id.NewGenerator(node, now)
		for range 4 {
			n := g.Next()
			if seen[n] {
				t.Fatalf("node %d repeats %d", node, n)
			}
			seen[n] = true
		}
	}
}

func TestNumbersGrowAboveAnyNodes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	made := func(node int, at time.Time, before int) int64 {
		g := id.NewGenerator(node, func() time.Time { return at })
		for range before {
			g.Next()
		}
		return g.Next()
	}
	byPostgreSQL := id.Floor(now) | 1<<21 | 77
	for name, test := range map[string]struct {
		n    int64
		want time.Duration // of the next number, from now
	}{
		"a smaller node":              {made(6, now, 9), 0},
		"the same node, further on":   {made(7, now, 9), 0},
		"the same node, at its last":  {made(7, now, 4095), time.Millisecond},
		"a greater node":              {made(8, now, 9), time.Millisecond},
		"the greatest node's last":    {made(id.MaxNode, now, 4095), time.Millisecond},
		"PostgreSQL":                  {byPostgreSQL, time.Millisecond},
		"a smaller node's later one":  {made(0, now.Add(time.Second), 9), time.Second},
		"a greater node's later one":  {made(8, now.Add(time.Second), 9), time.Second + time.Millisecond},
		"a greater node's earlier":    {made(8, now.Add(-time.Second), 9), 0},
		"as far ahead as is followed": {made(6, now.Add(5*time.Minute), 0), 5 * time.Minute},
		"farther":                     {made(6, now.Add(5*time.Minute+time.Millisecond), 0), 0},
		"the greatest number":         {1<<63 - 1, 0},
		"no number":                   {0, 0},
		"less than none":              {-1 << 63, 0},
	} {
		g := id.NewGenerator(7, func() time.Time { return now })
		first := g.Next()
		g.Above(test.n)
		got := g.Next()
		if ahead := id.TimeOf(got).Sub(now); ahead != test.want {
			t.Errorf("%s: %v ahead, want %v", name, ahead, test.want)
		}
		if far := id.TimeOf(test.n).Sub(now) > 5*time.Minute; !far && got <= test.n || got <= first {
			t.Errorf("%s: %d after %d, above %d", name, got, first, test.n)
		}
		g.Above(test.n)
		if next := g.Next(); next != got+1 {
			t.Errorf("%s: %d after %d: what is above already does not move on", name, next, got)
		}
	}
}

func TestFloorBoundsTheMillisecond(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 1, 12, 0, 0, 123e6, time.UTC)
	n := id.NewGenerator(id.MaxNode, func() time.Time { return at }).Next()
	if n < id.Floor(at) || n >= id.Floor(at.Add(time.Millisecond)) || !id.TimeOf(n).Equal(at) {
		t.Errorf("number %d of %v lies outside its millisecond", n, at)
	}
}

// The hash is written down in the database too: get_byte(sha256(int8send(1)), 0) is 205.
func TestBucketIsFixed(t *testing.T) {
	t.Parallel()
	if got := id.Bucket(1); got != 205 {
		t.Errorf("Bucket(1) = %d, want 205", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"evt_0000000000001ff", "evt_00076ez91zp0r3f", "EVT_00076ez91zp0r3f", "evt_00076EZ91ZP0R3F", "evt_00076ez91zp0r3", "evt_zzzzzzzzzzzzzff",
		"dlv_00076ez91zp0r3f", "evt_00076ez91zp0r3F", "evt_0007iez91zp0r3f", "evt_", "", "evt_00076ez91zp0r3f.", "evt_7zzzzzzzzzzzzff",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := id.Event.Parse(s)
		if err == nil && id.Event.Format(got) != s {
			t.Errorf("%q parses to %v, which is spelled %q", s, got, id.Event.Format(got))
		}
		if _, other := id.Delivery.Parse(s); err == nil && (other == nil || !id.LooksLikeID(s) || got.N < 0 || got.Shard < 0 || got.Shard >= id.Buckets) {
			t.Errorf("%q is %v, and an id of another kind, or none", s, got)
		}
	})
}

func ExampleKind_Format() {
	fmt.Println(id.Event.Format(id.ID{Shard: 0x3f, N: 253_402_300_799_000}))
	// Output: evt_00076ez91zp0r3f
}
