//go:build chaos

package e2e

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// handshakes are receivers that never come as far as a request, and do not with TLS what TLS is for.
func handshakes() []mischief {
	hello := func(on func(*guest)) func(*guest) {
		return func(g *guest) {
			if _, err := g.in.Peek(100); err == nil { // of the ClientHello
				on(g)
			}
		}
	}
	bare := func(name, outcome string, on func(*guest)) mischief {
		return mischief{name: name, play: hello(on), where: tlsOnly, bare: true, unread: true, outcome: outcome}
	}
	slow := func(name string, on func(*guest)) mischief {
		m := bare(name, "timeout", on)
		m.says = "TLS: the handshake was not finished in time"
		return m
	}
	flood := func(name string, on func(*guest)) mischief {
		m := bare(name, "tls_error", on)
		m.flood = true
		return m
	}
	says := func(text string) func(*guest) { return func(g *guest) { g.say(text); g.hold() } }
	return []mischief{
		slow("a handshake never answered", (*guest).hold),
		slow("a handshake, byte by byte", drips("\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03")),
		bare("HTTP instead of TLS", "tls_error", says("HTTP/1.1 400 Bad Request\r\n\r\n")),
		bare("garbage instead of TLS", "tls_error", says("\xff\x00\xff\x00\xff\x00\xff\x00")),
		bare("an alert", "tls_error", says("\x15\x03\x03\x00\x02\x02\x28")),
		bare("resets on the ClientHello", "tls_error", (*guest).reset),
		bare("leaves on the ClientHello", "tls_error", (*guest).leave),
		flood("handshake records without end", floods("\x16\x03\x03\x00\x04\x02\xff\xff\xff")),
		flood("empty records without end", floods("\x16\x03\x03\x00\x00")),
		flood("warnings without end", floods("\x15\x03\x03\x00\x02\x01\x5a")),
		flood("ChangeCipherSpec without end", floods("\x14\x03\x03\x00\x01\x01")),
	}
}

// deaf gives the address of a listener that accepts nothing: its queue is full, so the system does not answer.
func deaf(t *testing.T) string {
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
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	if v4, ok := name.(*syscall.SockaddrInet4); ok {
		at.Port = v4.Port
	}
	for range 16 {
		c, err := net.DialTimeout("tcp4", at.String(), 200*time.Millisecond)
		if err != nil {
			return at.String() // full
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("the queue of a listener does not fill")
	return ""
}
