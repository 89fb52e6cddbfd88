package auth

import (
	"context"
	"net/netip"
	"time"

	"github.com/postrider/postrider/internal/fault"
)

// Failure is why nobody was let in. Its value is a metric's label.
type Failure string

// The failures.
const (
	NoKey      Failure = "missing" // no bearer token at all: nobody's guess, so it counts for nothing
	UnknownKey Failure = "unknown" // also one that has expired or was revoked, and a link that is not good
	TooMany    Failure = "limited" // its address had too many of those; it was not looked at
)

// Failures gives all of them.
func Failures() []Failure { return []Failure{NoKey, UnknownKey, TooMany} }

// Door is where callers come in: it lets keys pass, and holds up an address from which too many come that are none. A key
// that this process has found good passes all the same: behind the address may be others.
type Door struct {
	keys     *Keys
	failures *limiter
	tell     func(Failure)
	warn     func(from netip.Addr)
}

// DoorOptions are what a Door may be told.
type DoorOptions struct {
	Tell func(Failure) // hears of each failure; nil: nobody does
	// Warn hears of an address that is held up from now on; nil: nobody does. The same may come again a few seconds later, so
	// it is up to Warn not to say too much.
	Warn  func(from netip.Addr)
	Burst int // failures that an address may have at once; 0: 20
}

// NewDoor makes one.
func NewDoor(keys *Keys, o DoorOptions) *Door {
	if o.Tell == nil {
		o.Tell = func(Failure) {}
	}
	if o.Warn == nil {
		o.Warn = func(netip.Addr) {}
	}
	if o.Burst == 0 {
		o.Burst = failBurst
	}
	return &Door{keys: keys, failures: newLimiter(time.Now, o.Burst), tell: o.Tell, warn: o.Warn}
}

// WaitError says when to come back. It is within the fault of a caller who comes too often.
type WaitError struct{ For time.Duration }

func (WaitError) Error() string { return "too many failed authentications" }

// Recognise says whose key the bearer token is, as Keys.Authenticate does, and fails with TooMany when too many failures
// came from the address. It counts none: that is for Enter, which the caller turns to if this fails.
func (d *Door) Recognise(ctx context.Context, bearer string, from netip.Addr) (Principal, error) {
	wait := d.failures.wait(from)
	if wait > 0 && !d.keys.cache.lately(hashOf(bearer)) {
		return Principal{}, fault.Wrap(fault.TooMany, WaitError{wait},
			"too many requests from this address had no good API key; it has to wait")
	}
	return d.keys.Authenticate(ctx, bearer)
}

// Try lets an address try something that it may be guessing at, such as a link's token, and counts it as a bad key is counted
// when it fails with Unauthenticated.
func (d *Door) Try(from netip.Addr, try func() error) error {
	if wait := d.failures.wait(from); wait > 0 {
		d.tell(TooMany)
		return fault.Wrap(fault.TooMany, WaitError{wait}, "too many failed tries came from this address; it has to wait")
	}
	err := try()
	if fault.Is(err, fault.Unauthenticated) {
		d.tell(UnknownKey)
		if d.failures.fail(from) {
			d.warn(from)
		}
	}
	return err
}

// Enter is Recognise for a caller who is told of the failure, which counts. An empty bearer is a request without a key.
func (d *Door) Enter(ctx context.Context, bearer string, from netip.Addr) (Principal, error) {
	if bearer == "" {
		d.tell(NoKey)
		return Principal{}, fault.New(fault.Unauthenticated, "an API key is needed: Authorization: Bearer <key>")
	}
	p, err := d.Recognise(ctx, bearer, from)
	switch fault.CodeOf(err) { //nolint:exhaustive // other faults are ours
	case fault.TooMany:
		d.tell(TooMany)
	case fault.Unauthenticated:
		d.tell(UnknownKey)
		if d.failures.fail(from) {
			d.warn(from)
		}
	}
	return p, err
}
