package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider/internal/console"
	"github.com/postrider/postrider/internal/devreceiver"
)

// screen keeps what several goroutines print from running into each other.
type screen struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *screen) printf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.w, format, args...)
}

// banner says how to go on; portal is a link into the demo tenant's. Its labelled lines begin at the line's start, for scripts
// that look for them.
func (d *demo) banner(portal string) string {
	metrics := d.state.URL + "/metrics"
	if d.cfg.Metrics.Addr != "" {
		metrics = "http://" + d.cfg.Metrics.Addr + "/metrics"
	}
	curl := fmt.Sprintf("curl -sS -X POST %s/v1/tenants/%s/events -H %s -H 'Content-Type: application/json' -d '%s'",
		d.state.URL, demoTenant, shellQuote("Authorization: Bearer "+d.state.Key),
		`{"type":"`+demoType+`","payload":{"order":"A-1002","amount":"12.50","currency":"EUR"}}`)
	var b strings.Builder
	for _, line := range [][2]string{
		{"", ""},
		{"", "Postrider " + buildVersion() + " is running: the event above went through PostgreSQL to the built-in receiver, signed."},
		{"", "The console takes the API key; the portal's link opens once, within an hour."},
		{"console", d.state.URL + console.Base + "/"},
		{"portal", portal},
		{"API", d.state.URL + "/v1"},
		{"docs", d.state.URL + "/docs"},
		{"metrics", metrics},
		{"api key", d.state.Key},
		{"send another", curl},
		{"see them all", d.listCommand},
		{"stop", "Ctrl-C"},
		{"", "ready"},
	} {
		if line[0] != "" {
			b.WriteString(line[0] + ": ")
		}
		b.WriteString(line[1] + "\n")
	}
	return b.String()
}

// describe says what the receiver got, for people.
func describe(got devreceiver.Received) string {
	what := fmt.Sprintf("%s (%s, attempt %s)", orUnknown(got.EventID), orUnknown(got.EventType), orUnknown(got.Attempt))
	if got.Err != nil {
		return fmt.Sprintf("receiver: REFUSED %s: %s\n", what, printable(got.Err.Error()))
	}
	return "receiver: verified " + what + "\n" + showBody(got.ContentType, got.Body)
}

func orUnknown(header string) string {
	if header == "" {
		return "?"
	}
	return printable(clip(header, 200))
}

const (
	bodyLines = 30
	bodyWidth = 160
)

// showBody indents a body, JSON spread over lines, and clips it.
func showBody(contentType string, body []byte) string {
	if !utf8.Valid(body) || bytes.IndexByte(body, 0) >= 0 {
		return fmt.Sprintf("    (%d bytes of %s)\n", len(body), printable(contentType))
	}
	var spread bytes.Buffer
	if json.Indent(&spread, body, "", "  ") == nil {
		body = spread.Bytes()
	}
	lines := strings.Split(strings.TrimRight(string(body), "\r\n"), "\n")
	more := ""
	if len(lines) > bodyLines {
		more = fmt.Sprintf("    (and %d more lines)\n", len(lines)-bodyLines)
		lines = lines[:bodyLines]
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString("    " + printable(clip(strings.ReplaceAll(strings.TrimRight(line, "\r"), "\t", "  "), bodyWidth)) + "\n")
	}
	return b.String() + more
}

// sightings are the events that the receiver has verified. One may be seen before the call that sent it is answered.
type sightings struct {
	mu     sync.Mutex
	events map[string]bool // nil: nobody asks any more
	news   chan struct{}
}

func newSightings() *sightings {
	return &sightings{events: map[string]bool{}, news: make(chan struct{}, 1)}
}

func (s *sightings) add(event string) {
	s.mu.Lock()
	if s.events != nil {
		s.events[event] = true
	}
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// wait returns when the event was seen, once; afterwards nothing is kept.
func (s *sightings) wait(ctx context.Context, event string, patience time.Duration) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		s.mu.Lock()
		seen := s.events[event]
		s.mu.Unlock()
		if seen {
			s.mu.Lock()
			s.events = nil
			s.mu.Unlock()
			return nil
		}
		select {
		case <-s.news:
		case <-late.C:
			return fmt.Errorf("the demo event did not reach the receiver in %s", patience)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
