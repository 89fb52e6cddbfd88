//go:build chaos

package e2e

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

const (
	burst = 100
	pause = 10 * time.Millisecond
)

// h2case is a mischief over HTTP/2, whose requests are played one by one.
func h2case(m mischief, play func(*call) bool) mischief {
	return h2greeted(m, nil, play)
}

func h2greeted(m mischief, greet func(*h2guest) bool, play func(*call) bool) mischief {
	m.where, m.play = overHTTP2, h2(greet, play)
	return m
}

func settles(settings ...http2.Setting) func(*h2guest) bool {
	return func(c *h2guest) bool { return c.fr.WriteSettings(settings...) == nil }
}

func answers(fields ...string) func(*call) bool {
	return func(c *call) bool { return c.headers(true, fields...) }
}

func holds2(c *call) bool { return c.hold() }

// beginHeaders begins headers that go on in continuations: nothing else may come between, so it waits for the request to be over.
func (c *call) beginHeaders() {
	c.body()
	c.locked(func() error {
		return c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: c.id, BlockFragment: c.block(":status", "200")})
	})
}

// h2silences are receivers that take their time over HTTP/2.
func h2silences() []mischief {
	late := func(name string) mischief { return mischief{name: name, hangs: true, outcome: "timeout"} }
	slow := func(name string) mischief {
		return mischief{name: name, hangs: true, outcome: "succeeded", status: 200}
	}
	return []mischief{
		h2greeted(late("no settings, no word"), func(c *h2guest) bool { c.mute = true; return true }, holds2),
		h2case(late("takes a request and is silent"), holds2),
		h2case(late("headers, byte by byte in continuations"), func(c *call) bool {
			c.beginHeaders()
			c.each(beat, 1, func() error { return c.fr.WriteContinuation(c.id, false, []byte{0x10}) })
			return false
		}),
		h2case(late("103 for ever"), func(c *call) bool {
			for c.headers(false, ":status", "103") {
				select {
				case <-time.After(beat):
				case <-c.done:
					return true
				case <-c.r.over:
					return true
				}
			}
			return true
		}),
		h2case(slow("a body, byte by byte"), func(c *call) bool {
			c.headers(false, ":status", "200")
			return c.each(beat, 1, func() error { return c.fr.WriteData(c.id, false, []byte("x")) })
		}),
		h2case(slow("a stream that never ends"), func(c *call) bool { return c.headers(false, ":status", "200") && c.data(false, "hello") && c.hold() }),
		h2case(slow("empty DATA for ever"), func(c *call) bool {
			c.headers(false, ":status", "200")
			return c.each(pause, burst, func() error { return c.fr.WriteData(c.id, false, nil) })
		}),
		h2greeted(late("a window that never opens"), settles(http2.Setting{ID: http2.SettingInitialWindowSize}), holds2),
		h2greeted(late("no stream is allowed"), settles(http2.Setting{ID: http2.SettingMaxConcurrentStreams}), holds2),
	}
}

// h2floods are receivers that never stop over HTTP/2.
func h2floods() []mischief {
	flood := func(name string) mischief { return mischief{name: name, flood: true, hangs: true, outcome: "timeout"} }
	exceeds := func(name string) mischief { return mischief{name: name, flood: true, outcome: "protocol_error"} }
	endless := func(write func(*call) error) func(*call) bool {
		return func(c *call) bool { return c.each(pause, burst, func() error { return write(c) }) }
	}
	return []mischief{
		h2case(flood("SETTINGS without end"), endless(func(c *call) error {
			return c.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 20})
		})),
		h2case(flood("PING without end"), endless(func(c *call) error { return c.fr.WritePing(false, [8]byte{}) })),
		h2case(flood("PRIORITY without end"), endless(func(c *call) error { return c.fr.WritePriority(c.id, http2.PriorityParam{StreamDep: 0}) })),
		h2case(flood("frames of no known type without end"), endless(func(c *call) error { return c.fr.WriteRawFrame(0xbe, 0, c.id, make([]byte, 100)) })),
		h2case(exceeds("settings acknowledged without end"), endless(func(c *call) error { return c.fr.WriteSettingsAck() })),
		h2case(flood("RST_STREAM of others without end"), endless(func(c *call) error { return c.fr.WriteRSTStream(c.id+2, http2.ErrCodeCancel) })),
		h2case(exceeds("103 without end"), endless(func(c *call) error {
			return c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: c.id, BlockFragment: c.block(":status", "103", "x", strings.Repeat("y", 100)), EndHeaders: true})
		})),
		h2case(exceeds("CONTINUATION without end"), func(c *call) bool {
			c.beginHeaders()
			more := c.block("x-a", strings.Repeat("y", 1000))
			c.each(pause, 50, func() error { return c.fr.WriteContinuation(c.id, false, more) })
			return false
		}),
		h2case(flood("empty CONTINUATION without end"), func(c *call) bool {
			c.beginHeaders()
			c.each(pause, burst, func() error { return c.fr.WriteContinuation(c.id, false, nil) })
			return false
		}),
		h2case(mischief{name: "an endless body", flood: true, outcome: "succeeded", status: 200, size: kept}, func(c *call) bool {
			c.headers(false, ":status", "200")
			return c.each(pause, 4, func() error { return c.fr.WriteData(c.id, false, make([]byte, 4<<10)) })
		}),
		h2case(mischief{name: "a body beyond its window", flood: true, outcome: "succeeded", status: 200}, func(c *call) bool {
			c.headers(false, ":status", "200")
			return c.each(pause, 40, func() error { return c.fr.WriteData(c.id, false, make([]byte, 16<<10)) })
		}),
	}
}

// h2departures are receivers that give streams and connections up, at each point.
func h2departures() []mischief {
	ends := func(name string, args ...any) mischief {
		return mischief{name: fmt.Sprintf(name, args...), outcome: "protocol_error", says: "HTTP/2"}
	}
	fine := func(name string, args ...any) mischief {
		return mischief{name: fmt.Sprintf(name, args...), outcome: "succeeded", status: 200}
	}
	gone := func(name string) mischief { return mischief{name: name, outcome: "connect_error"} }
	early := func(c *call) bool { return c.headers(false, ":status", "200") && c.data(false, "hello") }
	var all []mischief
	all = append(all, h2case(mischief{name: "RST_STREAM within a big request", big: true, outcome: "protocol_error"}, func(c *call) bool { return c.reset(http2.ErrCodeCancel) }))
	for _, code := range []http2.ErrCode{
		http2.ErrCodeNo, http2.ErrCodeProtocol, http2.ErrCodeInternal, http2.ErrCodeRefusedStream, http2.ErrCodeCancel,
		http2.ErrCodeEnhanceYourCalm, http2.ErrCodeHTTP11Required, 0xff,
	} {
		all = append(all,
			h2case(ends("RST_STREAM %s on the head", code), func(c *call) bool { return c.reset(code) }),
			h2case(ends("RST_STREAM %s after the request", code), func(c *call) bool { return c.body() && c.reset(code) }),
			h2case(fine("RST_STREAM %s after the headers", code), func(c *call) bool { return c.body() && c.headers(false, ":status", "200") && c.reset(code) }),
			h2case(fine("RST_STREAM %s within the body", code), func(c *call) bool { return c.body() && early(c) && c.reset(code) }),
			h2case(fine("RST_STREAM %s after the answer", code), func(c *call) bool { return c.body() && early(c) && c.data(true, "") && c.reset(code) }),
			h2case(ends("GOAWAY %s below the request", code), func(c *call) bool { return c.body() && c.goAway(0, code) && c.hold() }),
		)
	}
	refuses := mischief{name: "413 before the body is read, and RST_STREAM NO_ERROR", big: true, outcome: "rejected", status: 413}
	none := func(c *h2guest) bool {
		return c.fr.WriteSettings() == nil && c.fr.WriteGoAway(0, http2.ErrCodeNo, nil) == nil
	}
	away := mischief{name: "GOAWAY before any request", outcome: "protocol_error|connect_error", unread: true}
	return append(all,
		h2greeted(away, none, holds2),
		h2case(refuses, func(c *call) bool { return c.headers(true, ":status", "413") && c.reset(http2.ErrCodeNo) }),
		h2case(fine("GOAWAY over the request, which is answered"), func(c *call) bool {
			return c.goAway(c.id, http2.ErrCodeNo) && c.headers(true, ":status", "200")
		}),
		h2case(fine("GOAWAY after the answer"), func(c *call) bool { return c.headers(true, ":status", "200") && c.goAway(c.id, http2.ErrCodeNo) }),
		h2case(fine("GOAWAY within the body, and gone"), func(c *call) bool { return early(c) && c.goAway(c.id, http2.ErrCodeNo) && false }),
		h2case(mischief{name: "GOAWAY over the request, and gone", outcome: "connect_error|protocol_error"}, func(c *call) bool { return c.body() && c.goAway(c.id, http2.ErrCodeNo) && false }),
		h2case(gone("leaves after the request"), func(c *call) bool { return !c.body() }),
		h2case(gone("resets after the request"), func(c *call) bool { c.body(); c.guest.reset(); return false }),
		h2case(fine("leaves within the body"), func(c *call) bool { return c.body() && early(c) && false }),
		h2case(fine("resets within the body"), func(c *call) bool { c.body(); early(c); c.guest.reset(); return false }),
	)
}

// h2nonsense is what RFC 9113 forbids.
func h2nonsense() []mischief {
	broken := func(name string) mischief { return mischief{name: name, outcome: "protocol_error"} }
	fine := func(name string) mischief { return mischief{name: name, outcome: "succeeded", status: 200} }
	status := func(n int) mischief {
		return mischief{name: fmt.Sprint("status ", n), outcome: "protocol_error", status: n}
	}
	greets := func(name string) mischief {
		return mischief{name: name, outcome: "protocol_error|connect_error", unread: true}
	}
	raw := func(f func(*call) error) func(*call) bool {
		return func(c *call) bool { return c.body() && c.locked(func() error { return f(c) }) && c.hold() }
	}
	return []mischief{
		h2case(status(600), answers(":status", "600")),
		h2case(status(999), answers(":status", "999")),
		h2case(status(20), answers(":status", "020")),
		h2case(status(0), answers(":status", "000")),
		h2case(broken("status abc"), answers(":status", "abc")),
		h2case(broken("no status"), answers("x-a", "b")),
		h2case(broken("no fields"), answers()),
		h2case(broken("status twice"), answers(":status", "200", ":status", "500")),
		h2case(broken("status after a field"), answers("x-a", "b", ":status", "200")),
		h2case(broken("another pseudo field"), answers(":status", "200", ":path", "/")),
		h2case(broken("101 with the stream's end"), answers(":status", "101")),
		h2case(mischief{name: "101", outcome: "protocol_error|timeout", hangs: true}, func(c *call) bool { return c.headers(false, ":status", "101") && c.hold() }),
		h2case(broken("a name in capitals"), answers(":status", "200", "X-A", "b")),
		h2case(broken("a value with CR and LF"), answers(":status", "200", "x-a", "b\r\nInjected: c")),
		h2case(broken("a value with NUL"), answers(":status", "200", "x-a", "b\x00c")),
		h2case(fine("bytes in a value"), answers(":status", "200", "x-a", "b\xff\xfec")),
		h2case(mischief{name: "transfer-encoding: chunked", outcome: "succeeded|protocol_error"}, answers(":status", "200", "transfer-encoding", "chunked", "connection", "close")),
		h2case(fine("content-length too large"), func(c *call) bool {
			return c.headers(false, ":status", "200", "content-length", "99") && c.data(true, "ok")
		}),
		h2case(fine("content-length too small"), func(c *call) bool {
			return c.headers(false, ":status", "200", "content-length", "2") && c.data(true, "ok and more")
		}),
		h2case(fine("content-length -1"), func(c *call) bool {
			return c.headers(false, ":status", "200", "content-length", "-1") && c.data(true, "ok")
		}),
		h2case(fine("content-length twice"), func(c *call) bool {
			return c.headers(false, ":status", "200", "content-length", "1", "content-length", "2") && c.data(true, "ok")
		}),
		h2case(fine("204 with a body"), func(c *call) bool { return c.headers(false, ":status", "200") && c.data(true, "hello") }),
		h2case(fine("HEADERS twice"), func(c *call) bool {
			return c.headers(false, ":status", "200") && c.headers(false, ":status", "500") && c.hold()
		}),
		h2case(fine("trailers with a status"), func(c *call) bool {
			return c.headers(false, ":status", "200") && c.data(false, "ok") && c.headers(true, ":status", "500") && c.hold()
		}),
		h2case(fine("DATA after the stream's end"), func(c *call) bool { return c.headers(true, ":status", "200") && c.data(true, "more") }),
		h2case(fine("HEADERS after the stream's end"), func(c *call) bool { return c.headers(true, ":status", "200") && c.headers(true, ":status", "500") }),
		h2case(broken("DATA before the headers"), func(c *call) bool { return c.body() && c.data(true, "ok") && c.hold() }),
		h2case(broken("PUSH_PROMISE"), raw(func(c *call) error {
			return c.fr.WritePushPromise(http2.PushPromiseParam{StreamID: c.id, PromiseID: 2, BlockFragment: c.block(":method", "GET"), EndHeaders: true})
		})),
		h2case(mischief{name: "HEADERS of a stream nobody opened", hangs: true, outcome: "timeout"}, raw(func(c *call) error {
			return c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 99, BlockFragment: c.block(":status", "200"), EndHeaders: true, EndStream: true})
		})),
		h2case(broken("headers that are no HPACK"), raw(func(c *call) error {
			return c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: c.id, BlockFragment: []byte("\xff\xff\xff\xff\xff\xff"), EndHeaders: true})
		})),
		h2case(broken("a frame larger than agreed"), raw(func(c *call) error { return c.fr.WriteRawFrame(http2.FrameData, 0, c.id, make([]byte, 1<<20)) })),
		h2case(broken("SETTINGS of a wrong length"), raw(func(c *call) error { return c.fr.WriteRawFrame(http2.FrameSettings, 0, 0, make([]byte, 5)) })),
		h2case(broken("a window beyond its limit"), raw(func(c *call) error { return c.fr.WriteWindowUpdate(0, 1<<31-1) })),
		h2case(broken("a window that opens by nothing"), raw(func(c *call) error { return c.fr.WriteWindowUpdate(0, 0) })),
		h2case(broken("CONTINUATION of nothing"), raw(func(c *call) error { return c.fr.WriteContinuation(c.id, true, c.block("x", "y")) })),
		h2case(broken("HTTP/1.1 after the request"), func(c *call) bool { return c.body() && c.locked(func() error { c.say(ok); return nil }) && c.hold() }),
		h2greeted(greets("HTTP/1.1 as a greeting"), func(c *h2guest) bool { c.say(ok); return true }, holds2),
		h2greeted(greets("PING as a greeting"), func(c *h2guest) bool { return c.fr.WritePing(false, [8]byte{}) == nil }, holds2),
		h2greeted(greets("a window of 4 GB"), settles(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<32 - 1}), holds2),
		h2greeted(greets("frames of one byte at most"), settles(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1}), holds2),
	}
}
