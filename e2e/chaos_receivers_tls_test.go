//go:build chaos

package e2e

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
