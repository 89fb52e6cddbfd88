//go:build browser

package e2e

import (
	"fmt"
	"net/http"
	"strings"
)

// ran is what hostile content does where a page falls for it: browser/harness.mjs listens for it.
func ran(where string) string { return "window.__pwned='" + where + "'" }

// hostile gives texts that are more than text to somebody: to a browser, a template, a spreadsheet, a terminal, the eye. The
// names are those by which the checks know them.
func hostile(where string) map[string]string {
	return map[string]string{
		"script":   "<script>" + ran(where) + "</script>",
		"image":    `"><img src=x onerror="` + ran(where) + `">`,
		"quote":    `' autofocus onfocus=` + ran(where) + ` x='`,
		"link":     "javascript:" + ran(where),
		"template": "{{7*7}}${7*7}<%= 7*7 %>#{7*7}",
		"turned":   "invoice\u202egnp.exe\u2066\u200b.pdf",
		"long":     strings.Repeat("Wm", 60),
		"emoji":    "👩‍👩‍👧‍👦 Żółć 🏳️‍🌈",
		"equals":   `=cmd|' /C calc'!A0`,
		"plus":     "+1+1",
		"minus":    "-2+3",
		"at":       "@SUM(1+1)",
	}
}

// raw is a complete answer with this reason phrase, header lines and body, whatever is in them.
func raw(status int, reason string, headers []string, body string) string {
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Length: %d\r\n", status, reason, len(body))
	for _, h := range headers {
		head += h + "\r\n"
	}
	return head + "\r\n" + body
}

// hostileAnswers are what the receivers of the stage say, by their names.
func hostileAnswers() map[string]script {
	fixed := func(answer string) script { return func(int, request) string { return answer } }
	page := "<!doctype html><body onload=\"" + ran("answer body") + "\"><script>" + ran("answer body") + "</script>"
	return map[string]script{
		"markup": fixed(raw(500, "<script>"+ran("reason phrase")+"</script>", []string{
			"Content-Type: text/html", "X-Script: <script>" + ran("header value") + "</script>", `X-Image: "><img src=x onerror=` + ran("header value") + ">",
			"X-Formula: =cmd|' /C calc'!A0", "X-Bytes: \xff\xfe\x80", "X-Turned: \u202egnp.exe", "X-Long: " + strings.Repeat("W", 500),
			"Set-Cookie: __Host-postrider_console=stolen; Path=/; Secure", "Content-Security-Policy: script-src *",
		}, page)),
		"header-name": fixed("HTTP/1.1 200 OK\r\n<script>" + ran("header name") + "</script>: 1\r\nContent-Length: 0\r\n\r\n"),
		"split":       fixed("HTTP/1.1 500 Internal Server Error\r\nX-Split: a\rX-More: <script>" + ran("a bare CR") + "</script>\r\nContent-Length: 0\r\n\r\n"),
		"status-line": fixed("<script>" + ran("status line") + "</script>\r\n\r\n"),
		"binary":      fixed(raw(502, "\x01\x02\xff", []string{"Content-Type: application/octet-stream"}, "\x00\x01\xff\xfe<script>"+ran("binary")+"</script>\x00")),
		"json":        fixed(raw(503, "", []string{"Content-Type: application/json"}, `{"error":"</script><script>`+ran("JSON")+`</script>","turn":"`+"\u202e\u2028"+`"}`)),
		"huge":        fixed(raw(500, strings.Repeat("long ", 300), []string{"Content-Type: text/html"}, strings.Repeat(page, 300))),
		"moved":       fixed(raw(302, "Found", []string{"Location: javascript:" + ran("Location")}, "")),
		"moved-away":  fixed(raw(301, "Moved", []string{`Location: https://evil.example/"><img src=x onerror=` + ran("Location") + `>?token=canary`}, "")),
		"login":       fixed(raw(401, "Unauthorized", []string{`WWW-Authenticate: Basic realm="<script>` + ran("realm") + `</script>"`}, page)),
		"gone":        fixed(raw(410, "Gone", nil, page)),
		"rejecting":   fixed(raw(422, "Nope", []string{"Content-Type: text/plain"}, page)),
		"slow-down":   fixed(answer(http.StatusTooManyRequests, "Retry-After: 3600")),
		"closing":     fixed(""),
	}
}
