//go:build chaos

package e2e

import (
	"bytes"
	"compress/gzip"
	"strings"
	"time"
)

// mischief is one way for a receiver to be hostile or broken, and what has to become of a delivery to it.
type mischief struct {
	name    string
	url     string // of a receiver that is none; else there is a play
	play    func(*guest)
	where   where
	unread  bool // see rogue
	bare    bool
	flood   bool // again in each round
	big     bool // the payload does not fit into the sockets' buffers
	hangs   bool // an attempt lasts as long as it may; any other is over before
	outcome string
	overTLS string // the outcome there, if it is another one
	status  int
	body    string            // what is kept of the answer's body; "" is not looked at
	size    int               // how much is kept of it; 0 is not looked at
	headers map[string]string // what has to be among the kept ones
	says    string            // what has to be in the attempt's error
}

// where says which of the connections a mischief is done on.
type where int

const (
	anywhere where = iota
	plainOnly
	tlsOnly
	overHTTP2
)

const (
	beat = 100 * time.Millisecond // between the bytes of a receiver that trickles
	ok   = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	kept = 16 << 10 // delivery.response_body_limit
)

// tells takes a request and says something, whatever it is, and hangs up.
func tells(raw string) func(*guest) {
	return func(g *guest) {
		if g.request() {
			g.say(raw)
		}
	}
}

// after takes a request, says something, and goes on.
func after(raw string, on func(*guest)) func(*guest) {
	return func(g *guest) {
		if g.request() && (raw == "" || g.say(raw)) {
			on(g)
		}
	}
}

func drips(text string) func(*guest) { return func(g *guest) { g.drip(text, beat) } }

func floods(piece string) func(*guest) { return func(g *guest) { g.flood(piece) } }

// silences are receivers that take their time.
func silences() []mischief {
	return []mischief{
		{name: "takes a request and is silent", play: after("", (*guest).hold), hangs: true, outcome: "timeout", says: "no whole answer within 3s"},
		{name: "reads nothing", play: (*guest).wait, unread: true, hangs: true, outcome: "timeout"},
		{name: "reads nothing of a big request", play: (*guest).wait, unread: true, big: true, hangs: true, outcome: "timeout"},
		{name: "stops reading in the middle of a request", play: func(g *guest) { g.some(1000); g.wait() }, big: true, hangs: true, outcome: "timeout"},
		{name: "a status line, byte by byte", play: after("", drips("HTTP/1.1 200 O")), hangs: true, outcome: "timeout"},
		{name: "headers, byte by byte", play: after("HTTP/1.1 200 OK\r\n", drips("X-A: b\r\nX-B: c")), hangs: true, outcome: "timeout"},
		{name: "a header without end, byte by byte", play: after("HTTP/1.1 200 OK\r\nX-A: ", drips("x")), hangs: true, outcome: "timeout"},
		{name: "a body, byte by byte", play: after("HTTP/1.1 200 OK\r\n\r\n", drips("x")), hangs: true, outcome: "succeeded", status: 200},
		{name: "an error's body, byte by byte", play: after("HTTP/1.1 500 No\r\n\r\n", drips("x")), hangs: true, outcome: "retryable", status: 500},
		{name: "a body that stops", play: after("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello", (*guest).hold), hangs: true, outcome: "succeeded", status: 200, body: "hello"},
		{name: "a chunk that stops", play: after("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nff", (*guest).hold), hangs: true, outcome: "succeeded", status: 200, body: "hello"},
		{name: "only a status line", play: after("HTTP/1.1 200 OK\r\n", (*guest).hold), hangs: true, outcome: "timeout"},
		{name: "100 Continue and no more", play: after("HTTP/1.1 100 Continue\r\n\r\n", (*guest).hold), hangs: true, outcome: "timeout"},
		{name: "103, byte by byte, for ever", play: after("", func(g *guest) {
			g.look()
			for g.say("HTTP/1.1 103 Early Hints\r\n\r\n") {
				select {
				case <-time.After(beat):
				case <-g.gone:
					return
				case <-g.r.over:
					return
				}
			}
		}), hangs: true, outcome: "timeout"},
	}
}

// endless are receivers that do not stop.
func endless() []mischief {
	const exceeds, tooLarge = "protocol_error", "headers of the endpoint's answer are too large"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(make([]byte, 10<<20))
	_ = z.Close()
	bomb := "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + packed.String()
	return []mischief{
		{name: "endless headers", flood: true, play: after("HTTP/1.1 200 OK\r\n", floods("X-A: bcd\r\n")), outcome: exceeds, says: tooLarge},
		{name: "a header line without end", flood: true, play: after("HTTP/1.1 200 OK\r\nX-A: ", floods("x")), outcome: exceeds, says: tooLarge},
		{name: "a header's name without end", flood: true, play: after("HTTP/1.1 200 OK\r\n", floods("x")), outcome: exceeds, says: tooLarge},
		{name: "a status line without end", flood: true, play: after("HTTP/1.1 200 ", floods("x")), outcome: exceeds, says: tooLarge},
		{name: "line ends without end", flood: true, play: after("", floods("\r\n")), outcome: "protocol_error"},
		{name: "obs-fold without end", flood: true, play: after("HTTP/1.1 200 OK\r\nX-A: b\r\n", floods(" c\r\n")), outcome: exceeds, says: tooLarge},
		{name: "1xx without end", flood: true, play: after("", floods("HTTP/1.1 103 E\r\n\r\n")), outcome: exceeds, says: tooLarge},
		{name: "100 Continue without end", flood: true, play: after("", floods("HTTP/1.1 100 C\r\n\r\n")), outcome: exceeds, says: tooLarge},
		{name: "an endless body", flood: true, play: after("HTTP/1.1 200 OK\r\n\r\n", floods("\x00")), outcome: "succeeded", status: 200, size: kept},
		{name: "an endless body of a 500", flood: true, play: after("HTTP/1.1 500 No\r\n\r\n", floods("no")), outcome: "retryable", status: 500, size: kept},
		{name: "a length nobody has", flood: true, play: after("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n", floods("x")), outcome: "succeeded", status: 200, size: kept},
		{name: "endless chunks", flood: true, play: after("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", floods("4\r\nabcd\r\n")), outcome: "succeeded", status: 200, size: kept},
		{name: "a chunk's extension without end", flood: true, play: after("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;", floods("x")), outcome: "succeeded", status: 200},
		{name: "endless trailers", flood: true, play: after("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n", floods("X-A: bcd\r\n")), outcome: "succeeded", status: 200, body: "ok"},
		{name: "answers without end", flood: true, play: after("", floods(ok)), outcome: "succeeded", status: 200, body: "ok"},
		{name: "a gzip bomb", flood: true, play: tells(bomb), outcome: "succeeded", status: 200, body: packed.String(), headers: map[string]string{"Content-Encoding": "gzip"}},
		{name: "2 MB of headers", flood: true, play: tells("HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: bcdefghijklmnop\r\n", 100_000) + "\r\n"), outcome: exceeds, says: tooLarge},
	}
}

// departures are receivers that go, with an RST or a FIN, at each point of an exchange.
func departures() []mischief {
	const connect = "connect_error"
	var all []mischief
	for name, go_ := range map[string]func(*guest){"reset": (*guest).reset, "leaves": (*guest).leave} {
		all = append(all,
			mischief{name: name + " on accept", play: go_, unread: true, bare: true, outcome: connect, overTLS: "tls_error|connect_error"},
			mischief{name: name + " after the handshake", play: go_, unread: true, where: tlsOnly, outcome: connect},
			mischief{name: name + " after the request", play: after("", go_), outcome: connect},
			mischief{name: name + " within the request", play: func(g *guest) { g.some(100); go_(g) }, outcome: connect},
			mischief{name: name + " within a big request", play: func(g *guest) { g.some(100_000); go_(g) }, big: true, outcome: connect},
			mischief{name: name + " within the status line", play: after("HTTP/1.1 2", go_), outcome: "protocol_error"},
			mischief{name: name + " after the status line", play: after("HTTP/1.1 200 OK\r\n", go_), outcome: connect},
			mischief{name: name + " after a header", play: after("HTTP/1.1 200 OK\r\nX-A: b\r\n", go_), outcome: connect},
			mischief{name: name + " within a header", play: after("HTTP/1.1 200 OK\r\nX-A: b\r\nX-B", go_), outcome: "protocol_error"},
			mischief{name: name + " after 100 Continue", play: after("HTTP/1.1 100 C\r\n\r\n", go_), outcome: connect},
			mischief{name: name + " after the headers", play: after("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", go_), outcome: "succeeded", status: 200},
			mischief{name: name + " within the body", play: after("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello", go_), outcome: "succeeded", status: 200, body: "hello"},
			mischief{name: name + " within a chunk", play: after("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nff\r\n", go_), outcome: "succeeded", status: 200, body: "hello"},
			mischief{name: name + " within a 503's body", play: after("HTTP/1.1 503 No\r\nContent-Length: 100\r\n\r\nhello", go_), outcome: "retryable", status: 503, body: "hello"},
			mischief{name: name + " after the answer", play: after(ok, go_), outcome: "succeeded", status: 200, body: "ok"},
		)
	}
	return all
}
