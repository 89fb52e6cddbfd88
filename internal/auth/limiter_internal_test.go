package auth

import (
	"net/netip"
	"testing"
	"time"
)

func TestLimiter(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	l := newLimiter(func() time.Time { return now }, 3)
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	step := func(name string, at netip.Addr, want time.Duration) {
		t.Helper()
		if got := l.wait(at).Round(time.Millisecond); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	step("who never failed", a, 0)
	for i, last := range []bool{false, false, true, false} {
		if got := l.fail(a); got != last {
			t.Errorf("failure %d is the last: %v", i+1, got)
		}
	}
	step("who failed too often", a, failEvery)
	step("his neighbour", b, 0)
	step("the same as IPv6", netip.MustParseAddr("::ffff:192.0.2.1"), failEvery)
	now = now.Add(time.Second)
	step("a second later", a, failEvery-time.Second)
	now = now.Add(2 * time.Second)
	step("when it is over", a, 0)
	if !l.fail(a) {
		t.Error("after the wait it has one more, and no others")
	}
	step("and again", a, failEvery)
}

// However many addresses fail, the memory of them is bounded, and who failed of late is not forgotten.
func TestLimiterForgets(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	l := newLimiter(func() time.Time { return now }, 1)
	l.most = 10
	address := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}) }
	for n := range 1000 {
		l.fail(address(n))
		if size := len(l.young) + len(l.old); size > 2*l.most {
			t.Fatalf("%d addresses are remembered", size)
		}
		if l.wait(address(n)) == 0 || l.wait(address(max(0, n-9))) == 0 {
			t.Fatalf("after %d it has forgotten one of the last ten", n)
		}
	}
	if l.wait(address(1)) != 0 {
		t.Error("it has forgotten nobody")
	}
}
