package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/fault"
)

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// TestFraming is FC-010: a Content-Length for every size, and never a chunk.
func TestFraming(t *testing.T) {
	t.Parallel()
	var got [][]byte
	w := newWire(t, func(x *exchange) {
		for {
			head, body, err := x.read()
			if err != nil || strings.Contains(strings.ToLower(head), "transfer-encoding") {
				x.say("HTTP/1.1 411 Length Required\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
				return
			}
			got = append(got, body)
			x.say(okAnswer)
		}
	})
	c := newTestClient(t, Config{Policy: loopback()})
	payloads := [][]byte{
		{},
		[]byte("{}"), []byte(`"x"`), []byte("[]"), []byte("null"),
		{0, 0xff, '\r', '\n'},
		bytes.Repeat([]byte("y"), 8<<10), bytes.Repeat([]byte("z"), 1<<20),
	}
	for _, p := range payloads {
		if status, _ := mustDo(t, c, newPost(t, hang, w.url("/"), p)); status != http.StatusOK {
			t.Errorf("%d bytes: %d", len(p), status)
		}
	}
	c.CloseIdleConnections()
	heads := w.requests()
	if len(heads) != len(payloads) {
		t.Fatalf("%d requests", len(heads))
	}
	for i, p := range payloads {
		if l := headerOf(heads[i], "content-length"); l != strconv.Itoa(len(p)) || !bytes.Equal(got[i], p) {
			t.Errorf("%d bytes: content-length %q, body of %d", len(p), l, len(got[i]))
		}
	}
}

// TestHead pins the whole head of a request: nothing is added to what the caller set but Host and Content-Length.
func TestHead(t *testing.T) {
	t.Parallel()
	w := newWire(t, answering(okAnswer))
	c := newTestClient(t, Config{Policy: loopback()})
	req := newPost(t, hang, w.url("/a%2Fb?x=1&y=%20"), []byte("{}"))
	req.Header.Set("Expect", "100-continue")
	req.TransferEncoding = []string{"chunked"}
	mustDo(t, c, req)
	want := "POST /a%2Fb?x=1&y=%20 HTTP/1.1\r\nHost: " + w.addr + "\r\nUser-Agent: Postrider/test\r\nContent-Length: 2\r\n" +
		"Accept-Encoding: identity\r\nContent-Type: application/json\r\n\r\n"
	if got := w.requests()[0]; got != want {
		t.Errorf("head\n%s\nwant\n%s", got, want)
	}
	if req.Header.Get("Expect") == "" || req.GetBody == nil {
		t.Error("the caller's request was changed")
	}

	bare := newPost(t, hang, w.url("/"), nil)
	bare.Header = http.Header{"User-Agent": {"x"}}
	mustDo(t, c, bare)
	want = "POST / HTTP/1.1\r\nHost: " + w.addr + "\r\nUser-Agent: x\r\nContent-Length: 0\r\n\r\n"
	if got := w.requests()[1]; got != want {
		t.Errorf("head\n%s\nwant\n%s", got, want)
	}
}

// isOurs reports whether err is our own complaint about a request. fault.Is alone would take any error for fault.Internal.
func isOurs(err error, text string) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Code == fault.Internal && f.Detail == text
}

// TestUnknownLength: a body whose length nobody gave is sent whole or not at all, never chunked and never as an empty one.
func TestUnknownLength(t *testing.T) {
	t.Parallel()
	w := newWire(t, answering(okAnswer))
	c := newTestClient(t, Config{Policy: loopback()})
	post := func(body io.Reader, length int64) *http.Request {
		req := newPost(t, hang, w.url("/"), nil)
		req.Body, req.GetBody, req.ContentLength = io.NopCloser(body), nil, length
		return req
	}
	const unknown = "a request whose body has no known length"
	for _, length := range []int64{0, -1} {
		if err := mustFail(t, c, post(strings.NewReader("x"), length)); !isOurs(err, unknown) {
			t.Errorf("length %d with a body: %v", length, err)
		}
		mustDo(t, c, post(strings.NewReader(""), length))
	}
	if err := mustFail(t, c, post(brokenReader{}, 0)); !isOurs(err, unknown) {
		t.Errorf("a body that fails: %v", err)
	}
	req := newPost(t, hang, w.url("/"), nil)
	req.Body, req.ContentLength = nil, 3
	if err := mustFail(t, c, req); !isOurs(err, "a request with a length and no body") {
		t.Errorf("a length without a body: %v", err)
	}
	if n := len(w.requests()); n != 2 {
		t.Errorf("%d requests on the wire, want the two empty ones", n)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("broken") }

func TestDeadlineIsRequired(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, Config{Policy: loopback()})
	if err := mustFail(t, c, newPost(t, hang, "http://127.0.0.1:8080/", nil).WithContext(context.Background())); !isOurs(err, "a request without a deadline") {
		t.Errorf("%v", err)
	}
}

// TestRedirects is FC-021: no 3xx is followed, with any Location or none, and the answer stays an answer.
func TestRedirects(t *testing.T) {
	t.Parallel()
	other := newWire(t, answering(okAnswer))
	c := newTestClient(t, Config{Policy: loopback()})
	for _, status := range []string{"300", "301", "302", "303", "304", "307", "308"} {
		for _, location := range []string{"", other.url("/t"), "/t", "://%zz", "http://[::1", "javascript:alert(1)"} {
			head := "HTTP/1.1 " + status + " Away\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\nConnection: close\r\n"
			if location != "" {
				head += "Location: " + location + "\r\n"
			}
			a := newWire(t, answering(head+"\r\n"))
			got := do(c, newPost(t, hang, a.url("/"), []byte(`{"a":1}`)), 10)
			if strconv.Itoa(got.status) != status || got.header.Get("Location") != location || got.bodyErr != nil {
				t.Errorf("%s to %q: %+v", status, location, got)
			}
			if n := len(a.requests()); n != 1 {
				t.Errorf("%s to %q: %d requests", status, location, n)
			}
		}
	}
	if n := other.accepted(); n != 0 {
		t.Errorf("the place redirected to saw %d connections", n)
	}
}

func TestNoCookieIsKept(t *testing.T) {
	t.Parallel()
	w := newWire(t, answering("HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n"))
	c := newTestClient(t, Config{Policy: loopback()})
	for range 2 {
		mustDo(t, c, newPost(t, hang, w.url("/"), []byte("{}")))
	}
	for _, head := range w.requests() {
		if headerOf(head, "cookie") != "" {
			t.Errorf("a cookie was sent:\n%s", head)
		}
	}
}
