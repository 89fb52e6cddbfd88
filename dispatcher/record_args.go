package dispatcher

import (
	"bytes"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// recordArgs lays results out as the arrays of recordSQL.
func recordArgs(shard int16, results []result, now time.Time) pgx.StrictNamedArgs {
	var s stateColumns
	var a attemptColumns
	for _, r := range results {
		s.add(r)
		if r.noAttempt {
			continue
		}
		a.add(r)
	}
	return pgx.StrictNamedArgs{
		"shard": shard, "now": now,
		"ids": s.ids, "owners": s.owners, "claims": s.claims, "finals": s.finals, "reasons": s.reasons, "nexts": s.nexts,
		"attempts": s.attempts, "failures": s.failures, "rescues": s.rescues, "outcomes": s.outcomes,
		"statuses": s.statuses,
		"a_ids":    a.ids, "a_deliveries": a.deliveries, "a_endpoints": a.endpoints, "a_signed": a.signed,
		"a_versions": a.versions, "a_numbers": a.numbers, "a_statuses": a.statuses, "a_outcomes": a.outcomes,
		"a_dns": a.dns, "a_connect": a.connect, "a_tls": a.tls, "a_first": a.first, "a_total": a.total,
		"a_addresses": a.addresses, "a_agents": a.agents, "a_signatures": a.signatures, "a_errors": a.errors,
		"a_headers": a.headers, "a_bodies": a.bodies, "a_truncated": a.truncated, "a_made": a.made,
	}
}

// stateColumns are what becomes of each delivery.
type stateColumns struct {
	ids, owners                         []int64
	claims, attempts, failures, rescues []int32
	finals, reasons, outcomes           []*string
	nexts                               []*time.Time
	statuses                            []*int16
}

func (s *stateColumns) add(r result) {
	s.ids = append(s.ids, r.claimed.ID)
	s.owners = append(s.owners, r.owner)
	s.claims = append(s.claims, int32(r.claimed.Attempts)) //nolint:gosec // came from an integer
	attempts := r.claimed.Attempts
	if r.noAttempt {
		attempts-- // nothing went out: the number is free again
	}
	s.attempts = append(s.attempts, int32(attempts))            //nolint:gosec // came from an integer
	s.failures = append(s.failures, int32(r.decision.Failures)) //nolint:gosec // bounded by the schedule
	s.rescues = append(s.rescues, int32(r.decision.Rescues))    //nolint:gosec // bounded by maxRescues
	var outcome *string
	if !r.noAttempt {
		outcome = text(r.outcome.String())
	}
	s.outcomes = append(s.outcomes, outcome)
	s.statuses = append(s.statuses, status(r.answer.status))
	if r.decision.State.Finished() {
		s.finals = append(s.finals, text(r.decision.State.String()))
		s.reasons = append(s.reasons, text(string(r.decision.Reason)))
		s.nexts = append(s.nexts, nil)
		return
	}
	s.finals = append(s.finals, nil)
	s.reasons = append(s.reasons, nil)
	s.nexts = append(s.nexts, &r.decision.NextAt)
}

// attemptColumns are what is kept of each attempt.
type attemptColumns struct {
	ids, deliveries, endpoints, signed    []int64
	versions                              []int32
	numbers                               []int32
	statuses                              []*int16
	outcomes                              []string
	dns, connect, tls, first, total       []*int32
	addresses, agents, signatures, errors []*string
	headers, bodies                       [][]byte
	truncated, made                       []bool
}

func (a *attemptColumns) add(r result) {
	a.ids = append(a.ids, r.attemptID)
	a.deliveries = append(a.deliveries, r.claimed.ID)
	a.endpoints = append(a.endpoints, r.claimed.EndpointID)
	a.signed = append(a.signed, r.signedAt)
	a.versions = append(a.versions, int32(r.target.Version)) //nolint:gosec // came from an integer
	a.numbers = append(a.numbers, int32(r.claimed.Attempts)) //nolint:gosec // came from an integer
	a.statuses = append(a.statuses, status(r.answer.status))
	a.outcomes = append(a.outcomes, r.outcome.String())
	t := r.answer.timings
	a.dns = append(a.dns, micros(t.dns))
	a.connect = append(a.connect, micros(t.connect))
	a.tls = append(a.tls, micros(t.tls))
	a.first = append(a.first, micros(t.firstByte))
	a.total = append(a.total, micros(t.total))
	a.addresses = append(a.addresses, text(r.answer.address))
	a.agents = append(a.agents, text(r.userAgent))
	a.signatures = append(a.signatures, text(r.signature))
	a.errors = append(a.errors, text(explain(r.outcome, r.answer)))
	a.headers = append(a.headers, fieldLines(r.answer))
	a.bodies = append(a.bodies, r.answer.body)
	a.truncated = append(a.truncated, r.answer.truncated)
	a.made = append(a.made, r.made)
}

// fieldLines spells the answer's headers as HTTP/1.1 does, byte for byte; they need not be UTF-8.
func fieldLines(a answer) []byte {
	if a.header == nil {
		return nil
	}
	var b bytes.Buffer
	_ = a.header.Write(&b) // a bytes.Buffer takes everything
	return b.Bytes()
}

// text makes a value that PostgreSQL's text takes: valid UTF-8 without NUL; nil for "".
func text(s string) *string {
	if s == "" {
		return nil
	}
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	return &s
}

func status(n int) *int16 {
	if n == 0 {
		return nil
	}
	s := int16(min(n, math.MaxInt16)) //nolint:gosec // bounded just here
	return &s
}

// micros is a duration in microseconds, at least one; nil for a stage that did not happen.
func micros(d time.Duration) *int32 {
	if d <= 0 {
		return nil
	}
	n := int32(min(max(d.Microseconds(), 1), math.MaxInt32))
	return &n
}
