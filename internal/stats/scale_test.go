package stats

import (
	"encoding/hex"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

// The buckets' numbers are in the database: what is written today is read by later versions.
func TestBucketsStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		took   time.Duration
		bucket int
	}{
		{-time.Second, 0},
		{0, 0},
		{1, 0},
		{ms, 0},
		{ms + 1, 1},
		{2 * ms, 4},
		{2*ms + 1, 5},
		{8 * ms, 12},
		{100 * ms, 27},
		{1024 * ms, 40},
		{15 * time.Second, 56},
		{46 * time.Second, 62},
		{47 * time.Second, 63},
		{time.Hour, 63},
		{math.MaxInt64, 63},
	} {
		if got := bucketOf(c.took); got != c.bucket {
			t.Errorf("%s is in bucket %d, want %d", c.took, got, c.bucket)
		}
	}
	if !slices.IsSorted(bounds[:]) {
		t.Errorf("the bounds are %v", bounds)
	}
}

func spreadOf(all ...time.Duration) (s spread) {
	for _, d := range all {
		s[bucketOf(d)]++
	}
	return s
}

func TestLatencyOfFew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what          string
		all           []time.Duration
		p50, p95, p99 time.Duration
	}{
		{"none", nil, 0, 0, 0},
		{"one", []time.Duration{100 * ms}, 98701 * time.Microsecond, 98701 * time.Microsecond, 98701 * time.Microsecond},
		{"hardly any time", []time.Duration{ms / 5}, ms / 2, ms / 2, ms / 2},
		{"longer than the scale", []time.Duration{time.Hour}, 46341 * ms, 46341 * ms, 46341 * ms},
		{"two far apart", []time.Duration{10 * ms, 10 * time.Second}, 10375 * time.Microsecond, 10624 * ms, 10624 * ms},
	} {
		s := spreadOf(c.all...)
		l := s.latency()
		if l.Measured != int64(len(c.all)) {
			t.Errorf("%s: %d are measured", c.what, l.Measured)
		}
		for i, got := range []time.Duration{l.P50, l.P95, l.P99} {
			if want := []time.Duration{c.p50, c.p95, c.p99}[i]; (got - want).Abs() > want/1000 {
				t.Errorf("%s: got %s, want %s", c.what, got, want)
			}
		}
	}
}

// Whatever there is, a quantile is off by no more than the width of a bucket, and a higher one is no lower.
func TestQuantilesAreNearTheTruth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(math.Exp(rapid.Float64Range(0, math.Log(46e3)).Draw(t, "log")) * float64(ms))
		}), 1, 200).Draw(t, "all")
		s := spreadOf(all...)
		slices.Sort(all)
		last := time.Duration(0)
		for _, q := range []float64{0.01, 0.5, 0.95, 0.99, 1} {
			truth := all[max(int(math.Ceil(q*float64(len(all)))), 1)-1]
			got := s.quantile(q, int64(len(all)))
			if ratio := float64(got) / float64(truth); (ratio > 1.19 || ratio < 1/1.19) && truth > ms {
				t.Fatalf("the %v quantile of %v is %s, and %s was worked out", q, all, truth, got)
			}
			if got < last {
				t.Fatalf("the %v quantile of %v is %s, below that of less", q, all, got)
			}
			last = got
		}
	})
}

// What one process counted, another reads: the buckets come back as they went.
func TestPackedBucketsComeBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what   string
		counts map[int]int32
		from   int16
		packed string // hex
	}{
		{"none", nil, 0, ""},
		{"the first", map[int]int32{0: 7}, 0, "07"},
		{"the last", map[int]int32{buckets - 1: 1}, buckets - 1, "01"},
		{"with a gap", map[int]int32{3: 1, 5: 300, 6: math.MaxInt32}, 3, "0100ac02ffffffff07"},
	} {
		var latency [buckets]int32
		for at, n := range c.counts {
			latency[at] = n
		}
		from, packed := pack(&latency)
		if got := hex.EncodeToString(packed); from != c.from || got != c.packed {
			t.Errorf("%s: %s from %d, want %s from %d", c.what, got, from, c.packed, c.from)
		}
		var s, want spread
		for at, n := range c.counts {
			want[at] = int64(n)
		}
		if s.add(int(from), packed); s != want {
			t.Errorf("%s comes back as %v", c.what, s)
		}
	}
	var s spread
	s.add(62, []byte{1, 2, 3})                           // one bucket too many
	s.add(0, []byte{4, 0xff, 0xff, 0xff, 0xff, 0x7f, 5}) // one is too large
	s.add(1, []byte{6, 0x80})                            // one has no end
	if want := (spread{0: 4, 1: 6, 2: 5, 62: 1, 63: 2}); s != want {
		t.Errorf("got %v", s)
	}
}
