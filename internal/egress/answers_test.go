package egress

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/postrider/postrider/internal/pkitest"
)

// tooBig is a header block over the default limit of 64 KiB.
var tooBig = strings.Repeat("x", 70_000)

// TestAnswers pins what Do makes of every kind of answer: a status (with what becomes of the body), or the error's text. The
// judge of outcomes is written from this table.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const broken = "net/http: HTTP/1.x transport connection broken: "
	const exceeded = broken + "net/http: server response headers exceeded 65536 bytes; aborted"
	c := newTestClient(t, Config{Policy: loopback()})
	for _, a := range []struct {
		name, raw string
		status    int // of the answer, when there is no err
		body      string
		bodyErr   error // what reading it ends with; any other error is errAny
		err       string
	}{
		{name: "200", raw: okAnswer, status: 200, body: "ok"},
		{name: "200 without a length", raw: "HTTP/1.1 200 OK\r\n\r\nok", status: 200, body: "ok"},
		{name: "HTTP/1.0", raw: "HTTP/1.0 200 OK\r\n\r\nok", status: 200, body: "ok"},
		{name: "HTTP/3.7", raw: "HTTP/3.7 200 OK\r\nContent-Length: 2\r\n\r\nok", status: 200, body: "ok"},
		{name: "bare newlines", raw: "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", status: 200, body: "ok"},
		{name: "no reason", raw: "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", status: 200, body: "ok"},
		{name: "bytes in the reason", raw: "HTTP/1.1 200 <b>\x00\xff\r\nContent-Length: 2\r\n\r\nok", status: 200, body: "ok"},
		{name: "body of any bytes", raw: "HTTP/1.1 200 OK\r\n\r\n\x00\xff<b>", status: 200, body: "\x00\xff<b>"},
		{name: "status +20", raw: "HTTP/1.1 +20 OK\r\n\r\nx", status: 20, body: "x"},
		{name: "status 000", raw: "HTTP/1.1 000 OK\r\n\r\nx", status: 0, body: "x"},
		{name: "status 099", raw: "HTTP/1.1 099 OK\r\n\r\nx", status: 99, body: "x"},
		{name: "status 600", raw: "HTTP/1.1 600 OK\r\n\r\nx", status: 600, body: "x"},
		{name: "status 999", raw: "HTTP/1.1 999 OK\r\n\r\nx", status: 999, body: "x"},
		{name: "101", raw: "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nbytes", status: 101},
		{name: "101 without an upgrade", raw: "HTTP/1.1 101 Switching\r\n\r\nbytes", status: 101},
		{name: "1xx, then 200", raw: "HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\n\r\nHTTP/1.1 199 X\r\n\r\n" + okAnswer, status: 200, body: "ok"},
		{name: "100, then 200", raw: "HTTP/1.1 100 Continue\r\n\r\n" + okAnswer, status: 200, body: "ok"},
		{name: "1xx without end", raw: strings.Repeat("HTTP/1.1 103 E\r\n\r\n", 10_000), err: exceeded},
		{name: "204 with a length and a body", raw: "HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nabcde", status: 204},
		{name: "204 with a body", raw: "HTTP/1.1 204 No\r\n\r\nabcde", status: 204},
		{name: "304 with a body", raw: "HTTP/1.1 304 No\r\n\r\nabcde", status: 304},
		{name: "two answers", raw: okAnswer + okAnswer, status: 200, body: "ok"},
		{name: "cut body", raw: "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabcde", status: 200, body: "abcde", bodyErr: io.ErrUnexpectedEOF},
		{name: "no last chunk", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n", status: 200, body: "abcde", bodyErr: io.ErrUnexpectedEOF},
		{name: "bad chunk", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabcde\r\n", status: 200, bodyErr: errAny},
		{name: "a length nobody has", raw: "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\nab", status: 200, body: "ab", bodyErr: io.ErrUnexpectedEOF},
		{name: "unparsable Location", raw: "HTTP/1.1 302 F\r\nLocation: ://%zz\r\nContent-Length: 0\r\n\r\n", status: 302},

		{name: "nothing", raw: "", err: "EOF"},
		{name: "half a status line", raw: "HTTP/1.1 20", err: broken + `malformed HTTP status code "20"`},
		{name: "cut headers", raw: "HTTP/1.1 200 OK\r\nContent-Le", err: broken + `malformed MIME header: missing colon: "Content-Le"`},
		{name: "headers without end", raw: "HTTP/1.1 200 OK\r\nA: b\r\n", err: broken + "unexpected EOF"},
		{name: "no HTTP", raw: "garbage\r\n\r\n", err: broken + `malformed HTTP response "garbage"`},
		{name: "no status", raw: "HTTP/1.1\r\n\r\n", err: broken + `malformed HTTP response "HTTP/1.1"`},
		{name: "status abc", raw: "HTTP/1.1 abc OK\r\n\r\n", err: broken + `malformed HTTP status code "abc"`},
		{name: "status 2000", raw: "HTTP/1.1 2000 OK\r\n\r\n", err: broken + `malformed HTTP status code "2000"`},
		{name: "status -20", raw: "HTTP/1.1 -20 OK\r\n\r\n", err: broken + `malformed HTTP status code "-20"`},
		{name: "no version", raw: "HTTP/x 200 OK\r\n\r\n", err: broken + `malformed HTTP version "HTTP/x"`},
		{name: "a header without a colon", raw: "HTTP/1.1 200 OK\r\nbad header\r\n\r\n", err: broken + `malformed MIME header: missing colon: "bad header"`},
		{name: "NUL in a header", raw: "HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n", err: broken + `malformed MIME header line: "X: a\x00b"`},
		{name: "length x", raw: "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", err: broken + `bad Content-Length "x"`},
		{name: "two lengths", raw: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", err: broken + `http: message cannot contain multiple Content-Length headers; got ["1" "2"]`},
		{name: "unknown coding", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nab", err: broken + `unsupported transfer encoding: "gzip"`},
		{name: "a huge header", raw: "HTTP/1.1 200 OK\r\nX: " + tooBig + "\r\n\r\n", err: exceeded},
		{name: "a huge reason", raw: "HTTP/1.1 200 " + tooBig + "\r\n\r\n", err: exceeded},
		{name: "2 MB of headers", raw: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: yyyyyyyyyyyyyyy\r\n", 100_000) + "\r\n", err: exceeded},
	} {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t, func(x *exchange) {
				if _, _, err := x.read(); err == nil {
					x.say(a.raw)
				}
			})
			got := do(c, newPost(t, hang, w.url("/"), []byte("{}")), 100)
			if got.err != nil {
				if got.err.Error() != a.err {
					t.Errorf("%T %q, want %q", got.err, got.err, a.err)
				}
				return
			}
			if a.err != "" || got.status != a.status || string(got.body) != a.body || got.truncated {
				t.Errorf("%d %q %v, want %d %q %q", got.status, got.body, got.truncated, a.status, a.body, a.err)
			}
			if !errors.Is(got.bodyErr, a.bodyErr) && (got.bodyErr == nil || !errors.Is(a.bodyErr, errAny)) {
				t.Errorf("the body ended with %v, want %v", got.bodyErr, a.bodyErr)
			}
		})
	}
}

var errAny = errors.New("some error")

// TestSwitchingProtocols: nobody gets hold of the connection behind a 101, on which no deadline would end a read.
func TestSwitchingProtocols(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	w := newWire(t, func(x *exchange) {
		if _, _, err := x.read(); err != nil {
			return
		}
		x.say("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nbytes")
		_, _ = io.Copy(io.Discard, x.br)
		close(left)
	})
	c := newTestClient(t, Config{Policy: loopback()})
	resp, err := c.Do(newPost(t, hang, w.url("/"), nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); len(b) != 0 || err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("%d %q %v", resp.StatusCode, b, err)
	}
	<-left
}

// TestHeaderBytes: headers are handed on as the bytes they are.
func TestHeaderBytes(t *testing.T) {
	t.Parallel()
	w := newWire(t, answering("HTTP/1.1 200 OK\r\nX: a\xff\xfeb\r\nA b: c\r\nContent-Length: 0\r\n\r\n"))
	c := newTestClient(t, Config{Policy: loopback()})
	a := do(c, newPost(t, hang, w.url("/"), nil), 10)
	if got := a.header.Get("X"); got != "a\xff\xfeb" {
		t.Errorf("X: %q, %v", got, a.err)
	}
	if got := a.header["A b"]; len(got) != 1 {
		t.Errorf("%q", a.header)
	}
}

// TestSlowReceivers is FC-025 and its kind: everything ends with the deadline, and a status that was whole before it stands.
func TestSlowReceivers(t *testing.T) {
	t.Parallel()
	drip := func(x *exchange, s string) { // slowly, until the other side has had enough
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for x.say(s) {
			select {
			case <-tick.C:
			case <-x.done:
				return
			}
		}
	}
	c := newTestClient(t, Config{Policy: loopback()})
	for name, script := range map[string]func(*exchange){
		"no answer":          func(x *exchange) { <-x.done },
		"a status line only": func(x *exchange) { x.say("HTTP/1.1 200 OK\r\n"); <-x.done },
		"headers for ever":   func(x *exchange) { x.say("HTTP/1.1 200 OK\r\n"); drip(x, "A: b\r\n") },
		"103 for ever":       func(x *exchange) { drip(x, "HTTP/1.1 103 E\r\n\r\n") },
		"nothing is read":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := []byte("{}")
			if script == nil {
				body = bytes.Repeat([]byte("x"), 32<<20) // more than the sockets' buffers take
			}
			w := newWire(t, func(x *exchange) {
				if script == nil {
					<-x.done
					return
				}
				if _, _, err := x.read(); err == nil {
					script(x)
				}
			})
			if err := mustFail(t, c, newPost(t, 200*time.Millisecond, w.url("/"), body)); !itsDeadline(err) {
				t.Errorf("%v", err)
			}
		})
	}
	for name, script := range map[string]func(*exchange){
		"body for ever":   func(x *exchange) { drip(x, "x") },
		"body that stops": func(x *exchange) { x.say("xx"); <-x.done },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t, func(x *exchange) {
				if _, _, err := x.read(); err == nil {
					x.say("HTTP/1.1 200 OK\r\n\r\n")
					script(x)
				}
			})
			a := do(c, newPost(t, time.Second, w.url("/"), []byte("{}")), 16<<10)
			if a.status != http.StatusOK || a.truncated || !itsDeadline(a.bodyErr) || strings.Trim(string(a.body), "x") != "" {
				t.Errorf("%+v", a)
			}
		})
	}
}

// TestBigAnswers is FC-026 (a) and (b); (c) is in TestAnswers.
func TestBigAnswers(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, Config{Policy: loopback()})
	stopped := make(chan struct{})
	w := newWire(t, func(x *exchange) {
		if _, _, err := x.read(); err != nil {
			return
		}
		x.say("HTTP/1.1 200 OK\r\n\r\n")
		for zeros := strings.Repeat("\x00", 32<<10); x.say(zeros); {
		}
		close(stopped)
	})
	a := do(c, newPost(t, hang, w.url("/"), nil), 16<<10)
	if len(a.body) != 16<<10 || !a.truncated || a.err != nil || a.bodyErr != nil {
		t.Errorf("%d bytes, truncated %v, %v, %v", len(a.body), a.truncated, a.err, a.bodyErr)
	}
	<-stopped // the connection was closed, long before the deadline

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	w = newWire(t, func(x *exchange) {
		if _, _, err := x.read(); err == nil {
			x.say("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + packed.String())
		}
	})
	a = do(c, newPost(t, hang, w.url("/"), nil), 16<<10)
	if !bytes.Equal(a.body, packed.Bytes()) || a.truncated || a.bodyErr != nil || a.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%d bytes of %d packed, %v, %v, %v", len(a.body), packed.Len(), a.truncated, a.bodyErr, a.header)
	}
}

// TestEarlyAnswer is FC-023: an answer in the middle of a big body is that answer each time, and not a reset now and then.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	ca := pkitest.NewAuthority(t, "an authority")
	script := func(x *exchange) {
		if _, err := io.ReadFull(x.br, make([]byte, 1024)); err == nil {
			x.say("HTTP/1.1 413 Too Large\r\nConnection: close\r\n\r\n")
		}
	}
	body := bytes.Repeat([]byte("x"), 5<<20)
	plain := newWire(t, script)
	secure := newTLSWire(t, ca.Server(t, pkitest.Wanted{Hosts: []string{"127.0.0.1"}}), script)
	c := newTestClient(t, Config{Policy: loopback(), TLS: &tls.Config{RootCAs: ca.Pool()}})
	for _, url := range []string{plain.url("/"), "https://" + secure.addr + "/"} {
		for i := range 20 {
			// The body ends with nil or a reset; the status stands.
			if a := do(c, newPost(t, hang, url, body), 100); a.err != nil || a.status != http.StatusRequestEntityTooLarge {
				t.Errorf("%s, post %d: status %d, %v", url, i, a.status, a.err)
			}
		}
	}
}

// TestHTTP2Answers pins what Do makes of a hostile HTTP/2 receiver.
func TestHTTP2Answers(t *testing.T) {
	t.Parallel()
	rst := func(code http2.ErrCode) func(*h2call) bool {
		return func(c *h2call) bool { return c.fr.WriteRSTStream(c.stream, code) == nil }
	}
	const refused = "the receiver refused the request before answering; it was not sent again: "
	many := make([]string, 0, 2000)
	for range 1000 {
		many = append(many, "x", strings.Repeat("y", 80))
	}
	for name, a := range map[string]struct {
		script func(*h2call) bool
		status int
		err    string
	}{
		"200":                     {func(c *h2call) bool { return c.answer("200", "x", "y") }, 200, ""},
		"frames of no known type": {func(c *h2call) bool { return c.fr.WriteRawFrame(0xbe, 0, c.stream, nil) == nil && c.answer("200") }, 200, ""},
		"PRIORITY": {func(c *h2call) bool {
			return c.fr.WritePriority(c.stream, http2.PriorityParam{StreamDep: 7}) == nil && c.answer("200")
		}, 200, ""},
		"DATA before the headers":   {func(c *h2call) bool { return c.fr.WriteData(c.stream, true, []byte("x")) == nil }, 0, "stream error: stream ID 1; PROTOCOL_ERROR"},
		"700":                       {func(c *h2call) bool { return c.answer("700") }, 700, ""},
		"020":                       {func(c *h2call) bool { return c.answer("020") }, 20, ""},
		"307":                       {func(c *h2call) bool { return c.answer("307", "location", "https://127.0.0.1:1/") }, 307, ""},
		"status abc":                {func(c *h2call) bool { return c.answer("abc") }, 0, "stream error: stream ID 1; PROTOCOL_ERROR; malformed response from server: malformed non-numeric status pseudo header"},
		"no status":                 {func(c *h2call) bool { return c.answer("") }, 0, "stream error: stream ID 1; PROTOCOL_ERROR; malformed response from server: missing status pseudo header"},
		"101":                       {func(c *h2call) bool { return c.answer("101") }, 0, "stream error: stream ID 1; PROTOCOL_ERROR; 1xx informational response with END_STREAM flag"},
		"RST REFUSED_STREAM":        {rst(http2.ErrCodeRefusedStream), 0, refused + "stream error: stream ID 1; REFUSED_STREAM; received from peer"},
		"RST PROTOCOL_ERROR":        {rst(http2.ErrCodeProtocol), 0, refused + "stream error: stream ID 1; PROTOCOL_ERROR; received from peer"},
		"RST CANCEL":                {rst(http2.ErrCodeCancel), 0, "stream error: stream ID 1; CANCEL; received from peer"},
		"RST INTERNAL_ERROR":        {rst(http2.ErrCodeInternal), 0, "stream error: stream ID 1; INTERNAL_ERROR; received from peer"},
		"RST ENHANCE_YOUR_CALM":     {rst(http2.ErrCodeEnhanceYourCalm), 0, "stream error: stream ID 1; ENHANCE_YOUR_CALM; received from peer"},
		"RST HTTP_1_1_REQUIRED":     {rst(http2.ErrCodeHTTP11Required), 0, "stream error: stream ID 1; HTTP_1_1_REQUIRED; received from peer"},
		"GOAWAY":                    {func(c *h2call) bool { return c.fr.WriteGoAway(0, http2.ErrCodeNo, nil) == nil }, 0, refused + "http2: Transport received Server's graceful shutdown GOAWAY"},
		"GOAWAY over us, then gone": {leaving(1, http2.ErrCodeNo), 0, `http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug="why"`},
		"GOAWAY with an error":      {leaving(0, http2.ErrCodeEnhanceYourCalm), 0, "http2: Transport received GOAWAY from server ErrCode:ENHANCE_YOUR_CALM"},
		"gone":                      {func(c *h2call) bool { c.readBody(); return false }, 0, "unexpected EOF"},
		"one huge header":           {func(c *h2call) bool { return c.answer("200", "x", tooBig) }, 0, "connection error: COMPRESSION_ERROR"},
		"80 KB of headers":          {func(c *h2call) bool { return c.answer("200", many...) }, 0, "stream error: stream ID 1; PROTOCOL_ERROR; http2: response header list larger than advertised limit"},
		"HTTP/1.1":                  {func(c *h2call) bool { return c.x.say("HTTP/1.1 400 Bad\r\n\r\n") }, 0, "http2: failed reading the frame payload: http2: frame too large, note that the frame header looked like an HTTP/1.1 header"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newH2(t, a.script)
			c := newTestClient(t, h.config())
			got := do(c, newPost(t, hang, h.url(), []byte("{}")), 10)
			switch {
			case got.err != nil && got.err.Error() != a.err:
				t.Errorf("%T %q, want %q", got.err, got.err, a.err)
			case got.err == nil && (got.status != a.status || a.err != ""):
				t.Errorf("status %d, want %d %s", got.status, a.status, a.err)
			}
			if n := h.seen(); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func leaving(last uint32, code http2.ErrCode) func(*h2call) bool {
	return func(c *h2call) bool {
		c.readBody()
		_ = c.fr.WriteGoAway(last, code, []byte("why"))
		return false
	}
}

// TestHTTP2Framing: the length goes out over HTTP/2 too, also 0, and a stream's types survive errors.As.
func TestHTTP2Framing(t *testing.T) {
	t.Parallel()
	h := newH2(t, func(c *h2call) bool { return c.answer("200") })
	c := newTestClient(t, h.config())
	for _, body := range []string{"", "{}"} {
		mustDo(t, c, newPost(t, hang, h.url(), []byte(body)))
	}
	if h.lengths[0] != "0" || h.lengths[1] != "2" {
		t.Errorf("content-length %q", h.lengths)
	}
	if h.window != 64<<10 || h.headers < 64<<10 || h.headers > 80<<10 {
		t.Errorf("the client takes %d bytes of a stream and %d of headers", h.window, h.headers)
	}

	h = newH2(t, func(c *h2call) bool { return c.fr.WriteRSTStream(c.stream, http2.ErrCodeCancel) == nil })
	c = newTestClient(t, h.config())
	err := mustFail(t, c, newPost(t, hang, h.url(), []byte("{}")))
	var stream http2.StreamError
	if !errors.As(err, &stream) || stream.Code != http2.ErrCodeCancel {
		t.Errorf("%T %v", err, err)
	}
}

// TestHTTP2SlowReceiver: a stream ends with the deadline, before and after its headers.
func TestHTTP2SlowReceiver(t *testing.T) {
	t.Parallel()
	h := newH2(t, func(*h2call) bool { return true })
	c := newTestClient(t, h.config())
	if err := mustFail(t, c, newPost(t, 200*time.Millisecond, h.url(), []byte("{}"))); !itsDeadline(err) {
		t.Errorf("%v", err)
	}

	ca := pkitest.NewAuthority(t, "an authority")
	s := newHTTPServer(t, ca.Server(t, pkitest.Wanted{Hosts: []string{"127.0.0.1"}}), true, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	c = newTestClient(t, Config{Policy: loopback(), TLS: &tls.Config{RootCAs: ca.Pool()}})
	a := do(c, newPost(t, time.Second, s.URL, []byte("{}")), 10)
	if a.err != nil || string(a.body) != "x" || !itsDeadline(a.bodyErr) {
		t.Errorf("%+v", a)
	}
}
