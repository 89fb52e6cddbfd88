//go:build chaos

package e2e

import (
	"fmt"
	"strings"
)

// statusLines are answers whose first line is none of HTTP's, or hardly.
func statusLines() []mischief {
	const broken, fine = "protocol_error", "succeeded"
	var all []mischief
	for line, want := range map[string]struct {
		outcome string
		status  int
	}{
		"HTTP/1.1 +20 OK":                 {broken, 20},
		"HTTP/1.1 099 OK":                 {broken, 99},
		"HTTP/1.1 020 OK":                 {broken, 20},
		"HTTP/1.1 000 OK":                 {broken, 0},
		"HTTP/1.1 0 OK":                   {broken, 0},
		"HTTP/1.1 -20 OK":                 {broken, 0},
		"HTTP/1.1 600 OK":                 {broken, 600},
		"HTTP/1.1 999 OK":                 {broken, 999},
		"HTTP/1.1 1000 OK":                {broken, 0},
		"HTTP/1.1 65536 OK":               {broken, 0},
		"HTTP/1.1 20 OK":                  {broken, 0},
		"HTTP/1.1 2OO OK":                 {broken, 0},
		"HTTP/1.1 ２００ OK":                 {broken, 0}, // full-width
		"HTTP/1.1 200.5 OK":               {broken, 0},
		"HTTP/1.1 0x0C8 OK":               {broken, 0},
		"HTTP/1.1":                        {broken, 0},
		"HTTP/1.1 ":                       {broken, 0},
		"HTTP/1.1  200 OK":                {fine, 200},
		"HTTP/1.1\t200\tOK":               {broken, 0},
		"HTTP/x 200 OK":                   {broken, 0},
		"HTTP/ 200 OK":                    {broken, 0},
		"http/1.1 200 OK":                 {broken, 0},
		"HTTP/1.1.1 200 OK":               {broken, 0},
		"HTTPS/1.1 200 OK":                {broken, 0},
		"ICY 200 OK":                      {broken, 0},
		"SSH-2.0-OpenSSH_9":               {broken, 0},
		"\xff\xfe\x00":                    {broken, 0},
		"":                                {broken, 0},
		" HTTP/1.1 200 OK":                {broken, 0},
		"HTTP/0.9 200 OK":                 {fine, 200},
		"HTTP/1.0 200 OK":                 {fine, 200},
		"HTTP/3.0 200 OK":                 {fine, 200},
		"HTTP/1.1 200":                    {fine, 200},
		"HTTP/1.1 200 ":                   {fine, 200},
		"HTTP/1.1 299 ":                   {fine, 299},
		"HTTP/1.1 200 <b>\x00\xff\x1b[2J": {fine, 200},
		"HTTP/1.1 200 " + strings.Repeat("a", 100_000): {broken, 0},
		"HTTP/1.1 " + strings.Repeat("2", 100_000):     {broken, 0},
	} {
		name := line
		if len(name) > 40 {
			name = name[:40] + fmt.Sprintf("… of %d bytes", len(line))
		}
		all = append(all, mischief{
			name: fmt.Sprintf("status line %q", name), play: tells(line + "\r\nContent-Length: 2\r\n\r\nok"), where: plainOnly,
			outcome: want.outcome, status: want.status,
		})
	}
	return append(all,
		mischief{name: "HTTP/0.9, a body and no head", play: tells("<html>hello</html>"), outcome: broken},
		mischief{name: "says nothing", play: tells(""), outcome: "connect_error"},
	)
}

// statuses are answers that are none, or that mean something else than they seem to.
func statuses() []mischief {
	all := []mischief{
		{name: "101 with an upgrade", play: after("HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nbytes", (*guest).hold), where: plainOnly, outcome: "protocol_error", status: 101},
		{name: "101 without an upgrade", play: tells("HTTP/1.1 101 S\r\n\r\nbytes"), where: plainOnly, outcome: "protocol_error", status: 101},
		{name: "101 with endless bytes", flood: true, play: after("HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", floods("x")), outcome: "protocol_error", status: 101},
		{name: "100 without being asked, then 200", play: tells("HTTP/1.1 100 Continue\r\n\r\n" + ok), where: plainOnly, outcome: "succeeded", status: 200, body: "ok"},
		{name: "102, 103, 199, then 200", play: tells("HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\nX-A: b\r\n\r\nHTTP/1.1 199 X\r\n\r\n" + ok), where: plainOnly, outcome: "succeeded", status: 200, body: "ok"},
		{name: "100, then 101", play: tells("HTTP/1.1 100 C\r\n\r\nHTTP/1.1 101 S\r\n\r\n"), where: plainOnly, outcome: "protocol_error", status: 101},
		{name: "204 with a body", play: tells("HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nhello"), where: plainOnly, outcome: "succeeded", status: 204},
		{name: "204 with an endless body", flood: true, play: after("HTTP/1.1 204 No\r\n\r\n", floods("x")), outcome: "succeeded", status: 204},
		{name: "205 with a body", play: tells("HTTP/1.1 205 Reset\r\nContent-Length: 5\r\n\r\nhello"), where: plainOnly, outcome: "succeeded", status: 205},
		{name: "206 of nothing asked", play: tells("HTTP/1.1 206 P\r\nContent-Range: bytes 5-6/7\r\nContent-Length: 2\r\n\r\nok"), where: plainOnly, outcome: "succeeded", status: 206, body: "ok"},
		{name: "304 with a body", play: tells("HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\nhello"), where: plainOnly, outcome: "redirected", status: 304},
		{name: "407", play: tells("HTTP/1.1 407 P\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"), where: plainOnly, outcome: "rejected", status: 407},
		{name: "417", play: tells("HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n"), where: plainOnly, outcome: "rejected", status: 417},
		{name: "421", play: tells("HTTP/1.1 421 No\r\nContent-Length: 0\r\n\r\n"), where: plainOnly, outcome: "rejected", status: 421},
		{name: "426 with an upgrade", play: tells("HTTP/1.1 426 U\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n"), where: plainOnly, outcome: "rejected", status: 426},
		{name: "FC-023: 413 before the body is read, and gone", big: true, outcome: "rejected", status: 413, play: func(g *guest) {
			if g.some(1024) {
				g.say("HTTP/1.1 413 Too Large\r\nConnection: close\r\n\r\n")
			}
		}},
		{name: "413 before the body is read, which is then read", big: true, outcome: "rejected", status: 413, play: func(g *guest) {
			if g.some(1024) && g.say("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig") {
				g.leave()
			}
		}},
		{name: "200 before the body is read, and gone", big: true, outcome: "succeeded", status: 200, play: func(g *guest) {
			if g.some(1024) {
				g.say("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
			}
		}},
		{name: "answers before it is asked", unread: true, play: func(g *guest) { g.say(ok); g.hold() }, outcome: "succeeded|protocol_error|connect_error"},
	}
	for i, location := range []string{
		"://%zz", "http://[::1", "/hook", "", "http://169.254.169.254/latest?token=CANARY", "javascript:alert(1)", "\xff\xfe", "http://a b/",
		"https://user:CANARY@elsewhere.test/", strings.Repeat("x", 30_000),
	} {
		all = append(all, mischief{
			name: fmt.Sprint("Location ", i), play: tells("HTTP/1.1 307 T\r\nContent-Length: 0\r\nLocation: " + location + "\r\n\r\n"), where: plainOnly,
			outcome: "redirected", status: 307,
		})
	}
	return all
}

// heads are headers that lie, or are none.
func heads() []mischief {
	const broken, fine = "protocol_error", "succeeded"
	var all []mischief
	for name, want := range map[string]struct {
		head, body    string
		outcome, kept string
	}{
		"Content-Length twice":                 {"Content-Length: 1\r\nContent-Length: 2", "ab", broken, ""},
		"Content-Length twice, the same":       {"Content-Length: 2\r\nContent-Length: 2", "ok", fine, "ok"},
		"Content-Length, a list":               {"Content-Length: 2, 2", "ok", broken, ""},
		"Content-Length negative":              {"Content-Length: -1", "ok", broken, ""},
		"Content-Length +2":                    {"Content-Length: +2", "ok", broken, ""},
		"Content-Length of 30 digits":          {"Content-Length: 999999999999999999999999999999", "ok", broken, ""},
		"Content-Length too large":             {"Content-Length: 99", "ok", fine, "ok"},
		"Content-Length too small":             {"Content-Length: 2", "ok and more", fine, "ok"},
		"Content-Length abc":                   {"Content-Length: abc", "ok", broken, ""},
		"Content-Length 0x2":                   {"Content-Length: 0x2", "ok", broken, ""},
		"Content-Length empty":                 {"Content-Length:", "ok", broken, ""},
		"Transfer-Encoding gzip":               {"Transfer-Encoding: gzip", "ok", broken, ""},
		"Transfer-Encoding gzip, chunked":      {"Transfer-Encoding: gzip, chunked", "ok", broken, ""},
		"Transfer-Encoding chunked twice":      {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "2\r\nok\r\n0\r\n\r\n", broken, ""},
		"Transfer-Encoding CHUNKED":            {"Transfer-Encoding: CHUNKED", "2\r\nok\r\n0\r\n\r\n", fine, "ok"},
		"Transfer-Encoding and Content-Length": {"Transfer-Encoding: chunked\r\nContent-Length: 9", "2\r\nok\r\n0\r\n\r\n", fine, "ok"},
		"a chunk's size that is none":          {"Transfer-Encoding: chunked", "zz\r\nok\r\n", fine, ""},
		"a chunk's size that is negative":      {"Transfer-Encoding: chunked", "-2\r\nok\r\n", fine, ""},
		"a chunk's size of 17 digits":          {"Transfer-Encoding: chunked", "11111111111111111\r\nok\r\n", fine, ""},
		"a chunk longer than it says":          {"Transfer-Encoding: chunked", "2\r\nok and more\r\n0\r\n\r\n", fine, "ok"},
		"a header without a colon":             {"X-A", "ok", broken, ""},
		"a header without a name":              {": b", "ok", broken, ""},
		"a name that ends with a blank":        {"X-A : b", "ok", fine, ""},
		"a name with a blank":                  {"X A: b", "ok", fine, ""},
		"a name that is not ASCII":             {"X-\xff\xfe: b", "ok", broken, ""},
		"a name with NUL":                      {"X-\x00: b", "ok", broken, ""},
		"a first line that is folded":          {" X-A: b", "ok", broken, ""},
		"NUL in a value":                       {"X-A: a\x00b", "ok", broken, ""},
		"escape codes in a value":              {"X-A: \x1b[2J", "ok", broken, ""},
		"a bare CR in a value":                 {"X-A: a\rInjected: b", "ok", broken, ""},
		"CRs before the line's end":            {"X-A: b\r\r", "ok", broken, ""},
		"bare newlines":                        {"X-A: b\nX-C: d", "ok", fine, "ok"},
		"an empty value":                       {"X-A:", "ok", fine, "ok"},
		"markup in a value":                    {"X-A: <img src=x onerror=alert(1)>", "ok", fine, "ok"},
		"Retry-After, garbage":                 {"Retry-After: \xff-1e999", "ok", fine, "ok"},
		"Connection: X-A":                      {"Connection: X-A, close, keep-alive\r\nX-A: b", "ok", fine, "ok"},
		"Content-Encoding br":                  {"Content-Encoding: br, gzip, zstd", "ok", fine, "ok"},
	} {
		all = append(all, mischief{
			name: name, play: tells("HTTP/1.1 200 OK\r\n" + want.head + "\r\n\r\n" + want.body), where: plainOnly, outcome: want.outcome, body: want.kept,
		})
		if want.outcome == fine {
			all[len(all)-1].status = 200
		}
	}
	many := strings.Builder{}
	for n := range 2000 {
		fmt.Fprintf(&many, "X-%d: %d\r\n", n, n)
	}
	cookies := "Set-Cookie: a=CANARY; Path=/\r\nSet-Cookie: b=c; Max-Age=99999\r\n"
	return append(all,
		mischief{name: "bytes in a value", play: tells("HTTP/1.1 200 OK\r\nX-A: a\xff\xfeb\r\nContent-Length: 2\r\n\r\nok"), outcome: fine, status: 200, headers: map[string]string{"X-A": "a\uFFFDb"}},
		mischief{name: "obs-fold", play: tells("HTTP/1.1 200 OK\r\nX-A: b\r\n  c\r\n\td\r\nContent-Length: 2\r\n\r\nok"), outcome: fine, status: 200, headers: map[string]string{"X-A": "b c d"}},
		mischief{name: "a header three times", play: tells("HTTP/1.1 200 OK\r\nX-A: b\r\nX-A: c\r\nX-A: b\r\nContent-Length: 2\r\n\r\nok"), outcome: fine, status: 200, headers: map[string]string{"X-A": "b, c, b"}},
		mischief{name: "2,000 headers", play: tells("HTTP/1.1 200 OK\r\n" + many.String() + "Content-Length: 2\r\n\r\nok"), outcome: fine, status: 200, headers: map[string]string{"X-1999": "1999"}},
		mischief{name: "cookies", play: tells("HTTP/1.1 500 No\r\n" + cookies + "Content-Length: 0\r\n\r\n"), outcome: "retryable", status: 500},
		mischief{name: "a body of all bytes", play: tells("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + everyByte()), outcome: fine, status: 200, body: everyByte()},
		mischief{name: "a body with NUL", play: tells("HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\na\x00b\r\n"), outcome: "retryable", status: 500, body: "a\x00b\r\n"},
		mischief{name: "a body cut within a character", play: tells("HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("€", 10_000)), outcome: fine, status: 200},
	)
}

func everyByte() string {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return string(all)
}
