package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider/internal/devreceiver"
	"github.com/postrider/postrider/internal/verifier"
	"github.com/postrider/postrider/signer"
)

// report prints what came and what it was answered. The receiver calls it one at a time.
func (l *listener) report(got devreceiver.Received) {
	if l.json {
		line, err := json.Marshal(l.record(got))
		if err != nil {
			line = []byte(`{"error":"this request cannot be printed"}`)
		}
		fmt.Fprintf(l.w.stdout, "%s\n", line)
	} else {
		fmt.Fprint(l.w.stdout, l.describe(got))
	}
	if got.Err != nil {
		return
	}
	if l.count++; l.count == l.flags.count {
		l.enough()
	}
}

// why says what is wrong with a request that was refused.
func (l *listener) why(got devreceiver.Received) []verifier.Finding {
	if got.Err == nil || len(l.known.Secrets) == 0 {
		return nil
	}
	q := verifier.Question{
		Scheme: l.known.Scheme, Header: l.known.Header, Now: got.At, Tolerance: devreceiver.Tolerance,
		Secrets: labelled(l.known, "the endpoint"), Request: verifier.Request{Body: got.Body},
	}
	for name, values := range got.Header {
		for _, v := range values {
			q.Request.Fields = append(q.Request.Fields, verifier.Field{Name: name, Value: v})
		}
	}
	return verifier.Judge(q).Findings
}

// describe is a request for people. All of it came from strangers, and nothing of it may steer the terminal.
func (l *listener) describe(got devreceiver.Received) string {
	var b strings.Builder
	what := "verified"
	if got.Err != nil {
		what = "REFUSED"
	}
	fmt.Fprintf(&b, "%s %s %s, attempt %s", got.At.Local().Format(time.TimeOnly), what, orUnknown(got.EventType), orUnknown(got.Attempt))
	if got.Before > 0 {
		fmt.Fprintf(&b, " (seen before)")
	}
	if got.Header.Get(signer.HeaderReplay) == "true" {
		fmt.Fprintf(&b, " (replay)")
	}
	fmt.Fprintf(&b, "\n    event %s, delivery %s, %d bytes of %s\n", orUnknown(got.EventID), orUnknown(got.DeliveryID), len(got.Body), orUnknown(got.ContentType))
	if got.Err != nil {
		fmt.Fprintf(&b, "    why: %s\n", printable(got.Err.Error()))
		for _, f := range l.why(got) {
			fmt.Fprintf(&b, "    %s: %s\n      → %s\n", f.Code, printable(f.Says), printable(f.Do))
		}
	}
	if len(got.Body) > 0 {
		b.WriteString(showBody(got.ContentType, got.Body))
	}
	b.WriteString("    " + answered(got.Answer))
	if l.flags.pull && accepted(got) {
		b.WriteString("; it is acknowledged")
	} else if l.flags.pull {
		b.WriteString("; it is not acknowledged, and comes again")
	}
	b.WriteString("\n")
	return b.String()
}

func answered(a devreceiver.Answer) string {
	words := "answered " + strconv.Itoa(a.Status)
	if a.By != "" {
		words += " by the " + a.By
	}
	if a.Took > 0 {
		words += " after " + a.Took.Round(time.Millisecond).String()
	}
	if a.Note != "" {
		words += ": " + a.Note
	}
	return printable(words)
}

// record is a request for machines, in one line. encoding/json escapes what would steer a terminal.
type record struct {
	Time        string              `json:"time"`
	Verified    bool                `json:"verified"`
	Error       *string             `json:"error"`
	Findings    []verifier.Finding  `json:"findings,omitempty"`
	EventID     string              `json:"event_id"`
	EventType   string              `json:"event_type"`
	DeliveryID  string              `json:"delivery_id"`
	Attempt     *int                `json:"attempt"`
	SeenBefore  bool                `json:"seen_before"`
	ContentType string              `json:"content_type"`
	Headers     map[string][]string `json:"headers"`
	Body        *string             `json:"body,omitempty"`        // if it is text
	BodyBase64  []byte              `json:"body_base64,omitempty"` // if it is not
	Answer      recordedAnswer      `json:"answer"`
}

type recordedAnswer struct {
	Status int    `json:"status"`
	By     string `json:"by"` // listen or app
	TookMS int64  `json:"took_ms"`
	Note   string `json:"note,omitempty"`
}

func (l *listener) record(got devreceiver.Received) record {
	r := record{
		Time: got.At.UTC().Format("2006-01-02T15:04:05.000Z07:00"), Verified: got.Err == nil, Findings: l.why(got),
		EventID: got.EventID, EventType: got.EventType, DeliveryID: got.DeliveryID, SeenBefore: got.Before > 0,
		ContentType: got.ContentType, Headers: map[string][]string{},
		Answer: recordedAnswer{got.Answer.Status, "listen", got.Answer.Took.Milliseconds(), got.Answer.Note},
	}
	if got.Err != nil {
		r.Error = new(got.Err.Error())
	}
	if n, err := strconv.Atoi(got.Attempt); err == nil {
		r.Attempt = &n
	}
	if got.Answer.By != "" {
		r.Answer.By = got.Answer.By
	}
	for name, values := range got.Header {
		r.Headers[strings.ToLower(name)] = values
	}
	if utf8.Valid(got.Body) {
		r.Body = new(string(got.Body))
	} else {
		r.BodyBase64 = got.Body
	}
	return r
}
