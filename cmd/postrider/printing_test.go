package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/devreceiver"
	"github.com/spf13/cobra"
)

func TestRelative(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                       "now",
		-999 * time.Millisecond: "now",
		-5 * time.Second:        "5s ago",
		59 * time.Second:        "in 59s",
		-90 * time.Second:       "1m ago",
		2 * time.Hour:           "in 2h",
		-47 * time.Hour:         "47h ago",
		-72 * time.Hour:         "3d ago",
	} {
		if got := relative(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestATableIsAlignedAndHarmless(t *testing.T) {
	t.Parallel()
	tab := newTable("ID", "NAME", "X")
	tab.add("1", "Zoë", "a")
	tab.add("22", "\x1b[31mred\u202e", "")
	var out bytes.Buffer
	tab.print(&out)
	want := "ID  NAME       X\n" +
		"1   Zoë        a\n" +
		"22  \ufffd[31mred\ufffd  -\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	newTable("ID").list(&out, "keys")
	if out.String() != "no keys\n" {
		t.Errorf("an empty list: %q", out.String())
	}
}

func TestTimesArePlainInAPipe(t *testing.T) {
	t.Parallel()
	w := world{stdout: &bytes.Buffer{}}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	if got := w.clock(&at); got != "2026-01-02T02:04:05Z" {
		t.Error(got)
	}
	if got := w.clock(nil) + w.clock(&time.Time{}); got != "" {
		t.Error(got)
	}
}

func TestWhen(t *testing.T) {
	t.Parallel()
	w := world{now: func() time.Time { return call0 }}
	for _, c := range []struct {
		text      string
		direction int
		want      string
	}{
		{"", ago, ""},
		{"2h", ago, "2026-11-30T07:00:00Z"},
		{"1d", ahead, "2026-12-01T09:00:00Z"},
		{"2026-01-01T01:00:00.5+01:00", ahead, "2026-01-01T00:00:00.5Z"},
	} {
		cmd := &cobra.Command{}
		cmd.Flags().String("at", c.text, "")
		if got, err := w.when(cmd, "at", c.direction); err != nil || got != c.want {
			t.Errorf("%q: %s, %v, want %s", c.text, got, err, c.want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"bin/postrider": "bin/postrider",
		"":              "''",
		"it's":          `'it'\''s'`,
		"a b":           "'a b'",
		"$(x)":          "'$(x)'",
		"ü":             "'ü'",
	} {
		if got := shellQuote(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestTheReceiverIsDescribed(t *testing.T) {
	t.Parallel()
	got := devreceiver.Received{EventID: "evt_1", EventType: "order.paid", Attempt: "1", ContentType: "text/plain"}
	for name, c := range map[string]struct {
		body, want string
	}{
		"JSON":    {`{"a":[1],"b":1E+2}`, "    {\n      \"a\": [\n        1\n      ],\n      \"b\": 1E+2\n    }\n"},
		"text":    {"a\tb\r\nc\n", "    a  b\n    c\n"},
		"escape":  {"\x1b]0;x\x07", "    \ufffd]0;x\ufffd\n"},
		"binary":  {"\xff\xfe", "    (2 bytes of text/plain)\n"},
		"nothing": {"", "    \n"},
	} {
		got.Body = []byte(c.body)
		if out := describe(got); out != "receiver: verified evt_1 (order.paid, attempt 1)\n"+c.want {
			t.Errorf("%s: %q", name, out)
		}
	}
	long := describe(devreceiver.Received{Body: []byte(strings.Repeat(strings.Repeat("x", 500)+"\n", 100))})
	if lines := strings.Split(long, "\n"); len(lines) != bodyLines+3 || len([]rune(lines[1])) != bodyWidth+4 ||
		!strings.HasPrefix(lines[0], "receiver: verified ? (?, attempt ?)") {
		t.Errorf("a long body: %d lines, %q", len(lines), lines[:2])
	}
	refused := devreceiver.Received{EventID: "evt_\x1b", Err: errors.New("no\nsignature")}
	if out := describe(refused); out != "receiver: REFUSED evt_\ufffd (?, attempt ?): no\ufffdsignature\n" {
		t.Errorf("%q", out)
	}
}
