package auth

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// An address may have failBurst failures at once, and one more with each failEvery: enough for a wrong configuration that
	// somebody is mending, little for guessing.
	failBurst = 20
	failEvery = 3 * time.Second
	// maxAddresses bounds each half of a limiter's memory. An address without a failure takes none.
	maxAddresses = 16384
)

// limiter counts failures by address: an IPv4 address, or the /64 of an IPv6 one, which is what one customer has at least.
//
// What it remembers is in two halves. When the young one is full it becomes the old one, and what was there is forgotten:
// whoever commands that many addresses is not held by counting them.
type limiter struct {
	tick  func() time.Time // a clock that no one sets
	burst int
	most  int // addresses in each half

	mu         sync.Mutex
	young, old map[netip.Addr]*rate.Limiter
}

func newLimiter(tick func() time.Time, burst int) *limiter {
	return &limiter{tick: tick, burst: burst, most: maxAddresses, young: map[netip.Addr]*rate.Limiter{}}
}

// network is what addresses are counted by.
func network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// counted is what is remembered of an address; nil: nothing. The limiter is locked.
func (l *limiter) counted(at netip.Addr) *rate.Limiter {
	if young := l.young[at]; young != nil {
		return young
	}
	return l.old[at]
}

// wait says how long the address has to wait before a failure of it is looked at again; 0: it need not.
func (l *limiter) wait(from netip.Addr) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	counted := l.counted(network(from))
	if counted == nil {
		return 0
	}
	short := 1 - counted.TokensAt(l.tick())
	if short <= 0 {
		return 0
	}
	return time.Duration(short * float64(failEvery))
}

// fail counts a failure, and says whether it is the one that uses the allowance up.
func (l *limiter) fail(from netip.Addr) (last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, now := network(from), l.tick()
	counted := l.counted(at)
	if counted == nil {
		counted = rate.NewLimiter(rate.Every(failEvery), l.burst)
	}
	if l.young[at] == nil {
		if len(l.young) >= l.most {
			l.old, l.young = l.young, map[netip.Addr]*rate.Limiter{}
		}
		l.young[at] = counted
	}
	return counted.AllowN(now, 1) && counted.TokensAt(now) < 1
}
