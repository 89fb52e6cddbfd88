package egresstest

import (
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// Deaf gives the address of a listener on the loopback that accepts nothing: its queue is full, so the system answers no
// connect.
func Deaf(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	v4, ok := name.(*syscall.SockaddrInet4)
	if !ok {
		t.Fatalf("the listener is at %v", name)
	}
	at := netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), uint16(v4.Port)).String() //nolint:gosec // a port
	for range 16 {
		c, err := net.DialTimeout("tcp4", at, 200*time.Millisecond)
		if err != nil {
			return at // full
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("the queue of a listener does not fill")
	return ""
}
