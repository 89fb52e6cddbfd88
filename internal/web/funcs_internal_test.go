package web

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 ms", 240 * time.Microsecond: "0.2 ms", 45 * time.Millisecond: "45 ms", 3200 * time.Millisecond: "3.2 s",
		time.Minute: "1 min", 90 * time.Second: "90 s", 30 * time.Minute: "30 min", time.Hour: "1 h", 6 * time.Hour: "6 h",
		90 * time.Minute: "90 min", 24 * time.Hour: "1 day", 72 * time.Hour: "3 days",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v is %q, not %q", d, got, want)
		}
	}
	if got := Span((*time.Duration)(nil)); got != "–" {
		t.Errorf("none is %q", got)
	}
}

func TestAgoAndUTC(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration][2]string{
		0:                    {"now", "09:00:00 UTC"},
		90 * time.Second:     {"1 min ago", "08:58:30 UTC"},
		-2 * time.Hour:       {"in 2 h", "11:00:00 UTC"},
		26 * time.Hour:       {"26 h ago", "Nov 29 07:00:00 UTC"},
		400 * 24 * time.Hour: {"400 days ago", "2025-10-26 09:00:00 UTC"},
	} {
		if got := [2]string{ago(now.Add(-d), now), utc(now.Add(-d), now)}; got != want {
			t.Errorf("%v back is %q, not %q", d, got, want)
		}
	}
}

func TestSharesAreNeverMoreThanTheyAre(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]string{1: "100 %", 0: "0 %", 0.99999: "99.99 %", 0.00001: "0.01 %", 0.5: "50 %", 0.9873: "98.73 %"} {
		if got := Percent(share); got != want {
			t.Errorf("%v is %q, not %q", share, got, want)
		}
	}
}

func TestBodiesAreShownAsWhatTheyAre(t *testing.T) {
	t.Parallel()
	json := NewBody([]byte(`{"b":1e2, "a":-0,"a":"<script>"}`), false)
	if !strings.Contains(json.Pretty, "\"b\": 1e2,\n") || !strings.Contains(json.Pretty, `"a": -0`) || json.Raw != `{"b":1e2, "a":-0,"a":"<script>"}` || json.Hex != "" {
		t.Errorf("JSON keeps its order, repetitions and numbers: %+v", json)
	}
	if got := NewBody([]byte("plain text"), false); got.Pretty != "" || got.Raw != "plain text" {
		t.Errorf("text: %+v", got)
	}
	for name, b := range map[string][]byte{"broken UTF-8": {0xff, 'a'}, "NUL": {'a', 0, 'b'}} {
		if got := NewBody(b, false); got.Hex == "" || got.Raw != "" || got.Note == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := NewBody([]byte("a\u202eb\u0007c\td\n"), false); got.Raw != `a\u202eb\u0007c`+"\td\n" {
		t.Errorf("what turns or hides text is shown as an escape: %q", got.Raw)
	}
	if got := NewBody([]byte("half a letter \xc3"), true); got.Raw != "half a letter " || !strings.Contains(got.Note, "beginning") {
		t.Errorf("a letter that was cut through: %+v", got)
	}
	if got := NewBody(nil, false); !got.Empty || got.Note == "" {
		t.Errorf("nothing: %+v", got)
	}
}

// What is under an address never changes, and each file has one.
func TestAssets(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"app.css", "app.js", "icons.svg", "favicon.svg", "htmx-2.0.11.min.js", "uplot-1.6.32.min.js", "uplot-1.6.32.min.css"} {
		if a := assets()[name]; !strings.HasSuffix(a.url, "/"+name) || a.mediaType == "" || len(a.zipped) == 0 {
			t.Errorf("%s is served as %q from %q", name, a.mediaType, a.url)
		}
	}
}

// Vendored files are what their makers published.
func TestVendoredFilesAreUntouched(t *testing.T) {
	t.Parallel()
	for name, sum := range map[string]string{
		"htmx-2.0.11.min.js":   "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
		"uplot-1.6.32.min.js":  "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uplot-1.6.32.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
	} {
		if got := sumOf(assets()[name].plain); got != sum {
			t.Errorf("%s has the SHA-256 %s", name, got)
		}
	}
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// A small answer makes no large page, however deep it is nested.
func TestBodiesStaySmall(t *testing.T) {
	t.Parallel()
	for _, around := range [][2]string{{"[", "]"}, {`{"a":[`, "]}"}, {`{"]}\"":[`, "]}"}} {
		for _, deep := range []int{100, 2000, 4000} {
			for _, inner := range []string{"", "1" + strings.Repeat(",1", 8<<10)} {
				body := strings.Repeat(around[0], deep) + inner + strings.Repeat(around[1], deep)
				if got := NewBody([]byte(body), false); len(got.Pretty) > 9*len(body)+4<<10 {
					t.Errorf("%d bytes, %d times %s, are spread over %d", len(body), deep, around[0], len(got.Pretty))
				}
			}
		}
	}
	for _, body := range []string{`[[[[[[[["[[[\"[[[["]]]]]]]]`, `{"a":{"b":{"c":[1,2,{"d":[]}]}}}`, "[]", "1", `"]]]]"`} {
		if NewBody([]byte(body), false).Pretty == "" {
			t.Errorf("%s is not spread", body)
		}
	}
	if got := NewBody([]byte(strings.Repeat("]", 1<<10)), false); got.Pretty != "" || got.Raw == "" {
		t.Error("it is no JSON")
	}
}
