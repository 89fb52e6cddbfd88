package dispatcher

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"
)

// retryAfterAs reads Retry-After by RFC 9110 alone: §10.2.3 has seconds or a date, §5.6.7 the date's three forms.
func retryAfterAs(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	seconds, isNumber := new(big.Int).SetString(value, 10)
	if isNumber && value[0] != '-' && value[0] != '+' {
		if seconds.Cmp(big.NewInt(24*60*60)) > 0 {
			return 24 * time.Hour
		}
		return time.Duration(seconds.Int64()) * time.Second
	}
	for _, form := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 MST", "Mon Jan _2 15:04:05 2006"} {
		if at, err := time.Parse(form, value); err == nil {
			switch wait := at.Sub(now); {
			case wait < 0:
				return 0
			case wait > 24*time.Hour:
				return 24 * time.Hour
			default:
				return wait
			}
		}
	}
	return 0
}

// Whatever a receiver asks for: the next attempt is no sooner than the schedule has it, nor than it asked for; and at the
// latest a day on, or when the schedule has it.
func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{
		"7", "abc", "-5", "99999999", "", "0", "00", "+1", "1.5", "86400", "86401", " 120 ", "9223372036854775808", "1e3", "0x10", "１２",
		"Mon, 30 Nov 2026 12:00:09 GMT", "Monday, 30-Nov-26 12:00:09 GMT", "Mon Nov 30 12:00:09 2026", "Mon, 30 Nov 2026 11:59:59 GMT",
		"Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 30 Nov 2026 12:00:09 CET", "Thu, 01 Jan 1970 00:00:00 GMT", "7, 8",
	} {
		f.Add(value, uint16(429), uint8(0))
		f.Add(value, uint16(503), uint8(4))
	}
	f.Fuzz(func(t *testing.T, value string, status uint16, failures uint8) {
		asked := retryAfterAs(value, noon)
		if got := retryAfter(value, noon); got != asked {
			t.Errorf("%q is %v, want %v", value, got, asked)
		}
		facts := Facts{
			Outcome: Classify(int(status), nil), Status: int(status), Header: http.Header{"Retry-After": {value}},
			Failures: int(failures), Schedule: DefaultSchedule, Now: noon,
		}
		d := Decide(facts)
		if d.State != Pending {
			return
		}
		own := DefaultSchedule[failures]
		if facts.Outcome != Retryable {
			asked = 0
		}
		if want := max(own, asked); d.NextAt.Sub(noon) != want {
			t.Errorf("%q with %d after %d failures: next in %v, want %v", value, status, failures, d.NextAt.Sub(noon), want)
		}
	})
}

// What is stored of an answer's headers is read back as the receiver sent it, by our reader and by the library's.
func FuzzFieldLines(f *testing.F) {
	f.Add("Content-Type", "text/plain", "X", "\xff\x00<b>")
	f.Add("Set-Cookie", "a=b; Path=/", "Set-Cookie", "c=d")
	f.Add("A", " outer ", "B", "a\r\nInjected: 1")
	f.Add("A", "", "a b", "c")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		header := http.Header{}
		for _, pair := range [][2]string{{name1, value1}, {name2, value2}} {
			name := textproto.CanonicalMIMEHeaderKey(pair[0])
			header[name] = append(header[name], pair[1])
		}
		stored := fieldLines(answer{header: header})
		got := map[string][]string{}
		for _, h := range parseFieldLines(stored) {
			got[h.Name] = append(got[h.Name], h.Value)
		}
		for name, values := range header {
			if !token(name) {
				if _, kept := got[strings.ToValidUTF8(name, "\uFFFD")]; kept && len(got) > len(header) {
					t.Errorf("%q makes %q", name, stored) // a name that no answer can have is written as no line at all
				}
				continue
			}
			want := make([]string, len(values))
			for i, value := range values {
				want[i] = shownValue(value)
			}
			if !slices.Equal(got[name], want) {
				t.Errorf("%s: %q, want %q: stored as %q", name, got[name], want, stored)
			}
		}
		if read, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(stored, "\r\n"...)))).ReadMIMEHeader(); err == nil && len(read) > len(header) {
			t.Errorf("%q is read as %v", header, read)
		}
	})
}

// token reports whether a name is one of RFC 9110, §5.1.
func token(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r >= 0x80 || r <= ' ' || r == 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// shownValue is a header's value as it may be shown: in one line, without outer blanks, as UTF-8.
func shownValue(value string) string {
	value = strings.Trim(strings.NewReplacer("\r", " ", "\n", " ").Replace(value), " \t")
	return strings.TrimSpace(strings.ToValidUTF8(value, "\uFFFD"))
}

// An excerpt is the first bytes of the body as they came, however they came, and is truncated if it is not the whole.
func FuzzReadExcerpt(f *testing.F) {
	f.Add([]byte("abcde"), uint8(4), uint8(1), false)
	f.Add([]byte("\x00\xff\r\n"), uint8(4), uint8(3), true)
	f.Add([]byte{}, uint8(0), uint8(0), true)
	f.Fuzz(func(t *testing.T, sent []byte, limit, piece uint8, breaks bool) {
		var ends io.Reader = strings.NewReader("")
		if breaks {
			ends = errorReader{errors.New("cut off")}
		}
		body := &watched{Reader: io.MultiReader(&inPieces{bytes.NewReader(sent), int(piece) + 1}, ends)}
		got, truncated := readExcerpt(&http.Response{Body: body}, int64(limit))
		if want := sent[:min(len(sent), int(limit))]; !bytes.Equal(got, want) {
			t.Errorf("%q to %d: %q", sent, limit, got)
		}
		if want := len(sent) > int(limit) || breaks; truncated != want {
			t.Errorf("%q to %d, broken off %v: truncated %v", sent, limit, breaks, truncated)
		}
		if !body.closed || body.read > int(limit)+1 {
			t.Errorf("%q to %d: read %d, closed %v", sent, limit, body.read, body.closed)
		}
	})
}

// inPieces gives what it reads in pieces of at most n bytes.
type inPieces struct {
	io.Reader
	n int
}

func (p *inPieces) Read(b []byte) (int, error) {
	return p.Reader.Read(b[:min(len(b), p.n)])
}
