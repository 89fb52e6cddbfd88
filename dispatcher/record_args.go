package dispatcher

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// columns are results by column, as unnest takes them. What an attempt lacks is an empty text or a 0, which recordSQL makes
// null: nullable elements would cost an allocation and a detour through reflection each.
type columns struct {
	shards                              []int16
	ids, owners                         []int64
	claims, attempts, failures, rescues []int32
	finals, reasons, outcomes           []string // final: "" of what waits again
	nexts                               []time.Time
	lanes, statuses                     []int16
	kept, made                          []bool
	attemptIDs, endpoints, signed       []int64
	versions                            []int32
	dns, connect, tls, firstByte, total []int32
	addresses, signatures               []string
	errors, details                     []string
	headers, bodies                     [][]byte
	truncated                           []bool
	replays                             []int64 // those of attemptIDs that are replays: hardly ever any
}

// recordArgs lays results out as the arrays of recordSQL.
func recordArgs(results []result, agent int16, now time.Time) pgx.StrictNamedArgs {
	var c columns
	sorted := make([]*result, len(results)) // in the order in which all lock deliveries
	for i := range results {
		sorted[i] = &results[i]
	}
	slices.SortFunc(sorted, func(a, b *result) int {
		return a.claimed.delivery().Compare(b.claimed.delivery())
	})
	for _, r := range sorted {
		c.addState(r)
		c.addAttempt(r)
	}
	return pgx.StrictNamedArgs{
		"now": now, "agent": agent, "shards": c.shards, "ids": c.ids, "owners": c.owners, "claims": c.claims, "finals": c.finals,
		"reasons": c.reasons, "nexts": c.nexts, "attempts": c.attempts, "failures": c.failures, "rescues": c.rescues,
		"lanes": c.lanes, "outcomes": c.outcomes, "statuses": c.statuses, "kept": c.kept, "made": c.made,
		"attempt_ids": c.attemptIDs, "endpoints": c.endpoints, "signed": c.signed, "versions": c.versions, "dns": c.dns,
		"connect": c.connect, "tls": c.tls, "first": c.firstByte, "total": c.total, "addresses": c.addresses,
		"signatures": c.signatures, "errors": c.errors, "details": c.details, "headers": c.headers, "bodies": c.bodies,
		"truncated": c.truncated, "replays": c.replays,
	}
}

// addState adds what becomes of a delivery.
func (c *columns) addState(r *result) {
	c.shards = append(c.shards, r.claimed.Shard)
	c.ids = append(c.ids, r.claimed.ID)
	c.owners = append(c.owners, r.owner)
	c.claims = append(c.claims, int32(r.claimed.Attempts)) //nolint:gosec // came from an integer
	attempts := r.claimed.Attempts
	if r.noAttempt {
		attempts-- // nothing went out: the number is free again
	}
	c.attempts = append(c.attempts, int32(attempts))            //nolint:gosec // came from an integer
	c.failures = append(c.failures, int32(r.decision.Failures)) //nolint:gosec // bounded by the schedule
	c.rescues = append(c.rescues, int32(r.decision.Rescues))    //nolint:gosec // bounded by maxRescues
	c.lanes = append(c.lanes, int16(r.claimed.laneAfter(r.decision.Failures, r.decision.Rescues)))
	final := ""
	if r.decision.State.Finished() {
		final = r.decision.State.String()
	}
	c.finals = append(c.finals, final)
	c.reasons = append(c.reasons, string(r.decision.Reason))
	c.nexts = append(c.nexts, r.decision.NextAt)
}

// addAttempt adds what is kept of an attempt; of none, nothing but its place in the columns.
func (c *columns) addAttempt(r *result) {
	outcome, explanation, detail := "", "", ""
	if !r.noAttempt {
		outcome, explanation, detail = r.outcome.String(), explain(r.outcome, r.answer), r.detail()
	}
	c.outcomes = append(c.outcomes, outcome)
	c.statuses = append(c.statuses, int16(min(r.answer.status, math.MaxInt16))) //nolint:gosec // bounded just here
	c.kept = append(c.kept, !r.noAttempt)
	c.made = append(c.made, r.made)
	c.attemptIDs = append(c.attemptIDs, r.attemptID)
	if r.claimed.Origin == replayed {
		c.replays = append(c.replays, r.attemptID)
	}
	c.endpoints = append(c.endpoints, r.claimed.EndpointID)
	c.signed = append(c.signed, r.signedAt)
	c.versions = append(c.versions, int32(r.target.Version)) //nolint:gosec // came from an integer
	t := &r.answer.timings
	c.dns = append(c.dns, micros(t.dns))
	c.connect = append(c.connect, micros(t.connect))
	c.tls = append(c.tls, micros(t.tls))
	c.firstByte = append(c.firstByte, micros(t.firstByte))
	c.total = append(c.total, micros(t.total))
	c.addresses = append(c.addresses, text(r.answer.address))
	c.signatures = append(c.signatures, text(r.signature))
	c.errors = append(c.errors, text(explanation))
	c.details = append(c.details, text(detail))
	c.headers = append(c.headers, fieldLines(r.answer))
	c.bodies = append(c.bodies, r.answer.body)
	c.truncated = append(c.truncated, r.answer.truncated)
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

// text makes a value that PostgreSQL's text takes: valid UTF-8 without NUL.
func text(s string) string {
	if plain(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// plain reports whether s is printable ASCII, as nearly everything is.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// micros is a duration in microseconds, at least one; 0 for a stage that did not happen.
func micros(d time.Duration) int32 {
	if d <= 0 {
		return 0
	}
	return int32(min(max(d.Microseconds(), 1), math.MaxInt32))
}
