// Package id makes and spells the ids of Postrider's things.
//
// Inside, an id is a bucket and a 63-bit number whose order is the order of time: 41 bits of milliseconds since
// 2025-01-01 UTC (good until 2094), then 22 bits that tell apart what one millisecond holds. Outside it is a kind's
// prefix, the number in 13 lower-case Crockford base-32 digits and the bucket in two hex digits, so that a bare
// `dlv_…` says both where the row lies and when it was made, and plain string order is order of time.
//
// The package does not decide which bucket a tenant's data lies in beyond the one fixed hash, and holds no state
// but a Generator's.
package id

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// Buckets is how many buckets tenants' data is spread over. It is part of the ids and never changes.
const Buckets = 256

const (
	lowBits  = 22
	nodeBits = 9
	seqBits  = 12
	// The top one of the 22 low bits is kept for ids made inside PostgreSQL (postrider.enqueue), so that the two
	// makers can never meet.
	seqMask = 1<<seqBits - 1
	// MaxNode is the highest node number a Generator can carry.
	MaxNode = 1<<nodeBits - 1
)

var epoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// ID is one thing's id: the bucket its row lies in and its number, unique within the bucket.
type ID struct {
	Shard int16
	N     int64
}

// IsZero reports whether the id is unset: no thing has the number 0.
func (i ID) IsZero() bool { return i.N == 0 }

// Compare orders ids by bucket, then by time: below 0 when i comes first, 0 when they are the same.
func (i ID) Compare(o ID) int { return cmp.Or(cmp.Compare(i.Shard, o.Shard), cmp.Compare(i.N, o.N)) }

// Time is when the id was made, to the millisecond, by the database's clock.
func (i ID) Time() time.Time { return TimeOf(i.N) }

// TimeOf is the time inside an id's number, to the millisecond.
func TimeOf(n int64) time.Time {
	return epoch.Add(time.Duration(n>>lowBits) * time.Millisecond)
}

// Floor is the lowest number an id made at t can have: the bound for time ranges and partitions.
func Floor(t time.Time) int64 {
	ms := t.Sub(epoch).Milliseconds()
	return min(max(ms, 0), 1<<41-1) << lowBits // a time beyond 2094 is a bound too, not an overflow
}

// Bucket is the fixed hash from a tenant's number to its bucket: the first byte of the SHA-256 of the number's eight
// big-endian bytes. In SQL: get_byte(sha256(int8send(id)), 0).
func Bucket(tenant int64) int16 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(tenant)) //nolint:gosec // numbers are never negative
	sum := sha256.Sum256(b[:])
	return int16(sum[0])
}

// AllBuckets gives every bucket, in order.
func AllBuckets() []int16 {
	all := make([]int16, Buckets)
	for i := range all {
		all[i] = int16(i)
	}
	return all
}

// Kind is what an id names; its value is the id's prefix without the underscore.
type Kind string

// The kinds of CONTRACT §3, and those of the audit log.
const (
	Tenant   Kind = "ten"
	Endpoint Kind = "ep"
	Event    Kind = "evt"
	Delivery Kind = "dlv"
	Attempt  Kind = "att"
	Alert    Kind = "alr"
	Key      Kind = "key"
	Schedule Kind = "sch"
	Job      Kind = "job"
	Audit    Kind = "aud" // an entry of the audit log
	Session  Kind = "ses" // of somebody in a browser
	// EventType is an entry of the catalogue. People name it by its name; the audit log needs a number.
	EventType Kind = "typ"
)

var kinds = []Kind{Tenant, Endpoint, Event, Delivery, Attempt, Alert, Key, Schedule, Job, Audit, Session, EventType}

const (
	digits    = "0123456789abcdefghjkmnpqrstvwxyz" // Crockford's base 32, lower case
	digitsLen = 13
	hexDigits = "0123456789abcdef"
)

// Format spells the id: `evt_` + 13 digits + two of the bucket.
func (k Kind) Format(i ID) string {
	b := make([]byte, 0, len(k)+1+digitsLen+2)
	b = append(b, k...)
	b = append(b, '_')
	for shift := (digitsLen - 1) * 5; shift >= 0; shift -= 5 {
		b = append(b, digits[i.N>>shift&31])
	}
	b = append(b, hexDigits[i.Shard>>4&15], hexDigits[i.Shard&15])
	return string(b)
}

// Parse reads a spelled id of this kind. It takes only what Format writes; anything else is an error in words.
func (k Kind) Parse(s string) (ID, error) {
	rest, ok := strings.CutPrefix(s, string(k)+"_")
	if !ok || len(rest) != digitsLen+2 {
		return ID{}, fmt.Errorf("%q is not an id of the form %s_…", clip(s), k)
	}
	var n uint64
	for _, c := range []byte(rest[:digitsLen]) {
		d := strings.IndexByte(digits, c)
		if d < 0 || n>>58 != 0 {
			return ID{}, fmt.Errorf("%q is not an id of the form %s_…", clip(s), k)
		}
		n = n<<5 | uint64(d)
	}
	hi := strings.IndexByte(hexDigits, rest[digitsLen])
	lo := strings.IndexByte(hexDigits, rest[digitsLen+1])
	if hi < 0 || lo < 0 || n == 0 {
		return ID{}, fmt.Errorf("%q is not an id of the form %s_…", clip(s), k)
	}
	return ID{Shard: int16(hi<<4 | lo), N: int64(n)}, nil //nolint:gosec // the check on n>>58 keeps it below 2^63
}

// ParseAny reads a spelled id of whatever kind.
func ParseAny(s string) (Kind, ID, error) {
	for _, k := range kinds {
		if strings.HasPrefix(s, string(k)+"_") {
			parsed, err := k.Parse(s)
			return k, parsed, err
		}
	}
	return "", ID{}, fmt.Errorf("%q is not an id, such as ep_…", clip(s))
}

// LooksLikeID reports whether s begins like one of our ids: such a string may not be a caller's own uid.
func LooksLikeID(s string) bool {
	for _, k := range kinds {
		if strings.HasPrefix(s, string(k)+"_") {
			return true
		}
	}
	return false
}

func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
