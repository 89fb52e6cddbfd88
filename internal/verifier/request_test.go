package verifier_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/verifier"
)

func mac(key, message string) string {
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(message))
	return hex.EncodeToString(m.Sum(nil))
}

func TestCapturedRequestsAreRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ raw, want string }{
		"CRLF":                    {"POST /x HTTP/1.1\r\nA: b\r\nC:d \r\n\r\nbody\r\n", `[{A b} {C d}] "body\r\n"`},
		"LF":                      {"A: b\n\nbody\n\n", `[{A b}] "body\n\n"`},
		"no body":                 {"A: b", `[{A b}] ""`},
		"an empty one":            {"A: b\n\n", `[{A b}] ""`},
		"an editor's mark":        {"\ufeffA: b\n\n\ufeffx", `[{A b}] "\ufeffx"`},
		"HTTP/2":                  {":method: POST\n:path: /\na: b\n\nx", `[{a b}] "x"`},
		"no value":                {"A:\n\n", `[{A }] ""`},
		"chunks":                  {"Transfer-Encoding: chunked\nA: b\n\n3\r\nabc\r\n0\r\n\r\n", `[{Transfer-Encoding chunked} {A b}] "abc"`},
		"chunks put together":     {"Transfer-Encoding: chunked\n\nabc", `[{Transfer-Encoding chunked}] "abc"`},
		"bytes that are no text":  {"A: b\n\n\x00\xff", `[{A b}] "\x00\xff"`},
		"a line with two colons":  {"A: b: c\n\n", `[{A b: c}] ""`},
		"other HTTP in the value": {"POST http://x/?a=b c HTTP/1.0\nA: HTTP/1.1 200\n\n", `[{A HTTP/1.1 200}] ""`},
	} {
		r, err := verifier.ParseRequest([]byte(c.raw))
		if got := fmt.Sprintf("%v %+q", r.Fields, r.Body); err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
}

func TestWhatIsNoRequestIsRefusedWithItsLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ raw, says string }{
		"nothing":          {"", "there are no headers"},
		"a body alone":     {"\n{}", "there are no headers"},
		"an answer":        {"HTTP/1.1 200 OK\nA: b\n\n", "line 1: this is an answer"},
		"no empty line":    {"A: b\n{\"whsec\": 1}\n", "line 2: this is no header"},
		"JSON":             {`{"a": 1}`, "line 1: this is no header"},
		"a blank in front": {"A: b\n c\n\n", "line 2: this is no header"},
	} {
		if _, err := verifier.ParseRequest([]byte(c.raw)); err == nil || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What was read is read again, and no bytes of a body get lost.
func FuzzParseRequest(f *testing.F) {
	for _, seed := range []string{
		"POST / HTTP/1.1\r\nwebhook-id: a\r\n\r\n{}", "a:b\n\nc", "Transfer-Encoding: chunked\n\n1\r\na\r\n0\r\n\r\n", "HTTP/1.1 200 OK", ":a\n\n", "\ufeff\n",
		"webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=\nwebhook-id: a\nwebhook-timestamp: 1614265330\n\n{\"a\": \"\\u00e9\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := verifier.ParseRequest(raw)
		if err != nil {
			return
		}
		if v := verifier.Judge(ask(r, whsec)); v.Verified || len(v.Findings) == 0 {
			t.Errorf("%+v", v)
		}
		var again bytes.Buffer
		for _, field := range r.Fields {
			fmt.Fprintf(&again, "%s: %s\r\n", field.Name, field.Value)
		}
		fmt.Fprintf(&again, "\r\n%s", r.Body)
		second, err := verifier.ParseRequest(again.Bytes())
		if err != nil || fmt.Sprint(second.Fields) != fmt.Sprint(r.Fields) || !bytes.Equal(second.Body, r.Body) {
			if r.Get("Transfer-Encoding") == "" {
				t.Errorf("%v: %+v, then %+v", err, r, second)
			}
		}
	})
}
