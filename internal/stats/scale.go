package stats

import (
	"encoding/binary"
	"math"
	"slices"
	"time"
)

// Durations are counted in buckets, each a fourth root of two (19 %) wider than the one below, so four to a doubling. The first
// has all up to a millisecond, the last all above 46 s:
//
//	bucket     1    4    8    12   20    28     36     40    48    56   62
//	up to ms   1.2  2    4    8    32    128    512    1.0s  4.1s  16s  46s
//
// What is read off them lies in the bucket of the true value, so it is off by 19 % at most, and by 9 % where it is a bucket's only
// one. The numbers are in the database: a change needs new columns.
const (
	buckets   = 64
	perDouble = 4
)

// bounds are the upper ends of all buckets but the last, which has none.
var bounds = func() (b [buckets - 1]time.Duration) {
	for i := range b {
		b[i] = time.Duration(float64(time.Millisecond) * math.Pow(2, float64(i)/perDouble))
	}
	return b
}()

// bucketOf gives the bucket of a duration.
func bucketOf(d time.Duration) int {
	i, _ := slices.BinarySearch(bounds[:], d)
	return i
}

// spread is how many took how long.
type spread [buckets]int64

// pack gives the buckets that have something, and those between them, as a column has them, and which is the first.
func pack(latency *[buckets]int32) (from int16, packed []byte) {
	first, end := 0, buckets
	for end > 0 && latency[end-1] == 0 {
		end--
	}
	for first < end && latency[first] == 0 {
		first++
	}
	packed = []byte{} // never null
	if first == end {
		return 0, packed
	}
	for _, n := range latency[first:end] {
		packed = binary.AppendUvarint(packed, uint64(n)) //nolint:gosec // a count
	}
	return int16(first), packed
}

// add adds counts that were packed. What is not on the scale, or no count, is of no version of ours, and left out.
func (s *spread) add(from int, packed []byte) {
	for at := from; len(packed) > 0; at++ {
		n, length := binary.Uvarint(packed)
		if length <= 0 {
			return
		}
		if at >= 0 && at < buckets && n <= math.MaxInt32 {
			s[at] += int64(n)
		}
		packed = packed[length:]
	}
}

func (s *spread) latency() Latency {
	l := Latency{}
	for _, n := range s {
		l.Measured += n
	}
	if l.Measured > 0 {
		l.P50, l.P95, l.P99 = s.quantile(0.50, l.Measured), s.quantile(0.95, l.Measured), s.quantile(0.99, l.Measured)
	}
	return l
}

// quantile gives about how long the share q of all, which is how many there are, took at most: the nearest rank, with those
// of its bucket thought to lie evenly between its ends on the scale.
func (s *spread) quantile(q float64, all int64) time.Duration {
	rank := max(int64(math.Ceil(q*float64(all))), 1)
	for i, n := range s {
		if rank > n {
			rank -= n
			continue
		}
		part := (float64(rank) - 0.5) / float64(n)
		switch i {
		case 0:
			return time.Duration(float64(bounds[0]) * part)
		case buckets - 1:
			return bounds[i-1]
		}
		return time.Duration(float64(bounds[i-1]) * math.Pow(2, part/perDouble))
	}
	return bounds[len(bounds)-1] // all was less than there are
}
