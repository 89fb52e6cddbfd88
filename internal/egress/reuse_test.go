package egress

import "testing"

// TestConnectionReuse: a body read to its end leaves the connection to the next request; a cut one and a 101 do not.
func TestConnectionReuse(t *testing.T) {
	t.Parallel()
	for answer, kept := range map[string]bool{
		okAnswer: true,
		"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd":                                         true,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n":              true,
		"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n":                                           true,
		"HTTP/1.1 307 Away\r\nLocation: /x\r\nContent-Length: 2\r\n\r\nok":                         true,
		"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabcdef":                                       false,
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok":                      false,
		"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n": false,
	} {
		w := newWire(t, answering(answer))
		client := newTestClient(t, Config{Policy: loopback()})
		// Three calls; more only if the machine is too busy for net/http to keep any connection in time.
		calls := 0
		for calls < 3 || (kept && calls < 100 && w.accepted() == calls) {
			calls++
			if a := do(client, newPost(t, hang, w.url("/"), []byte("{}")), 4); a.err != nil || a.bodyErr != nil {
				t.Fatal(a.err, a.bodyErr)
			}
		}
		if n := w.accepted(); (n < calls) != kept {
			t.Errorf("%.40q: %d connections for %d calls", answer, n, calls)
		}
	}
}
