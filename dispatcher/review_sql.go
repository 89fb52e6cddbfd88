package dispatcher

import (
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// unfinished and finished are the states that the two tables hold.
var (
	unfinishedStates = []State{Scheduled, Pending, InFlight, Held}
	finishedStates   = []State{StateSucceeded, StateFailed, StateCancelled}
)

// sql puts the statement together from constant parts, one half for each table that can hold what is asked for. Each half
// gives its newest rows of the window up to the page's size, and the newest of both make the page.
func (s *search) sql(now time.Time) (string, pgx.StrictNamedArgs) {
	args := pgx.StrictNamedArgs{
		"now": now, "below": s.below.N, "below_shard": s.below.Shard,
		"from": int64(0), "to": int64(0), "limit": 0, // each window's own
	}
	head := listedHead
	if s.way == byType || s.way == byPayload {
		head = s.candidates(args) + listedHead
	}
	conditions, joins := s.common(args)
	var halves []string
	if s.wants(unfinishedStates...) {
		halves = append(halves, "SELECT * FROM (SELECT "+unfinishedColumns+" FROM "+s.half("deliveries", joins, conditions+s.unfinishedStates(), args)+") half")
	}
	if s.wants(finishedStates...) {
		halves = append(halves, "SELECT * FROM (SELECT "+finishedColumns+" FROM "+s.half("deliveries_finished", joins, conditions+s.finishedStates(args), args)+") half")
	}
	return head + strings.Join(halves, " UNION ALL ") + " ORDER BY id DESC, shard DESC LIMIT @limit" + listedTail, args
}

// The bounds on id let PostgreSQL leave out the partitions of other days.
const (
	inWindow = ` WHERE d.id >= @from AND d.id <= @to
    AND (d.id < @below::bigint OR d.id = @below AND d.shard < @below_shard::smallint)`
	pageEnd = ` ORDER BY d.id DESC, d.shard DESC LIMIT @limit`

	// Each bucket's part of the page: the primary key, backwards, unless a condition names a better index.
	eachBucket = `unnest(@shards::smallint[]) AS b(shard)`
	bucketEnd  = ` AND d.shard = b.shard ORDER BY d.id DESC LIMIT @limit) d`

	// A tenant's finished deliveries are found by its endpoints, deleted ones too, through
	// deliveries_finished_by_endpoint: a small tenant does not pay for a large one in the same bucket.
	tenantsEndpoints = `(SELECT t.shard, t.id AS endpoint_id FROM endpoints t
    WHERE t.shard = ANY (@shards::smallint[]) AND t.tenant_id = @tenant) AS b`
	ofEndpoint = ` AND d.shard::integer = b.shard AND d.endpoint_id = b.endpoint_id`

	// ofEvent is the ids of an event's deliveries, which it names itself.
	ofEvent = `(SELECT e.delivery_ids FROM events e WHERE e.shard = @shard AND e.id = @event)::bigint[]`

	// LIMIT 1, so that each look-up finds its own partition by events_pkey.
	joinEvents = ` LEFT JOIN LATERAL (SELECT e.uid, e.type, e.payload FROM events e
    WHERE e.shard = d.shard AND e.id = d.event_id LIMIT 1) ev ON true`
	// The halves need the endpoint only for what they filter by; what is shown of it comes after the limit.
	joinEndpoints = ` LEFT JOIN endpoints ep ON ep.shard = d.shard AND ep.id = d.endpoint_id`
)

// half is one half: the table, by the way of the search, up to the page's size.
func (s *search) half(table, joins, conditions string, args pgx.StrictNamedArgs) string {
	finished := table == "deliveries_finished"
	switch {
	case s.way == byType || s.way == byPayload: // the primary key, for each candidate
		return "c CROSS JOIN LATERAL (SELECT d.* FROM " + table + " d" + inWindow +
			" AND d.shard = c.shard AND d.id = c.id LIMIT 1) d" + joins + " WHERE true" + conditions + pageEnd
	case s.way == byUnhappy && finished: // deliveries_finished_unhappy, _by_tenant, _by_endpoint
		return table + " d" + joins + inWindow + s.unhappyOf(args) + conditions + pageEnd
	}
	args["shards"] = s.shards
	buckets := eachBucket
	if s.way == byTenant && finished {
		buckets, conditions = tenantsEndpoints, conditions+ofEndpoint
	}
	return buckets + " CROSS JOIN LATERAL (SELECT d.* FROM " + table + " d" + joins + inWindow + conditions + bucketEnd + pageEnd
}

// unhappyOf narrows what did not succeed to what the filter names.
func (s *search) unhappyOf(args pgx.StrictNamedArgs) string {
	unhappy := " AND d.state <> 'succeeded'"
	if len(s.shards) == 1 {
		unhappy += " AND d.shard = @shard"
		args["shard"] = s.shards[0]
	}
	return unhappy
}

// common gives the conditions and joins that both halves have.
func (s *search) common(args pgx.StrictNamedArgs) (conditions, joins string) {
	add := func(condition, name string, value any) {
		conditions += condition
		args[name] = value
	}
	if s.Tenant != nil {
		add(" AND d.tenant_id = @tenant", "tenant", s.Tenant.N)
	}
	if s.Endpoint != nil {
		add(" AND d.endpoint_id = @endpoint", "endpoint", s.Endpoint.N)
	}
	if s.Endpoint != nil && s.way == byEndpoint { // deliveries_finished_by_endpoint
		conditions += " AND d.shard::integer = b.shard"
	}
	if s.Event != nil { // the primary keys; an event lies in one bucket, which place has found
		add(" AND d.id = ANY ("+ofEvent+")", "event", s.Event.N)
		args["shard"] = s.Event.Shard
	}
	if s.delivery != nil { // the primary keys
		add(" AND d.id = @delivery", "delivery", s.delivery.N)
	}
	conditions += s.outcomes(args)
	if s.way != byType && s.way != byPayload && (s.EventType != "" || s.text != "") {
		conditions += s.ofType(args) + s.ofText(args, orEndpoint)
		joins += joinEvents
	}
	if s.text != "" && s.way != byPayload || s.someUnfinishedStates() {
		joins += joinEndpoints
	}
	return conditions, joins
}

// outcomes: one alone is looked for within deliveries_finished_unhappy, without a look at the rows.
func (s *search) outcomes(args pgx.StrictNamedArgs) string {
	if len(s.Outcomes) == 0 {
		return ""
	}
	names := make([]string, len(s.Outcomes))
	for i, o := range s.Outcomes {
		names[i] = o.String()
	}
	if len(names) == 1 {
		args["outcome"] = names[0]
		return " AND d.last_outcome = @outcome::outcome"
	}
	args["outcomes"] = names
	return " AND d.last_outcome = ANY ((SELECT @outcomes::text[]::outcome[])::outcome[])"
}

// someUnfinishedStates reports whether some states of unfinished deliveries are asked for and others are not, which takes
// the endpoint to tell.
func (s *search) someUnfinishedStates() bool {
	wanted := 0
	for _, st := range unfinishedStates {
		if s.wants(st) {
			wanted++
		}
	}
	return wanted > 0 && wanted < len(unfinishedStates)
}

// unfinishedStates spells in columns what shownColumns spells as a CASE: held and pending exclude each other, and so do
// pending and scheduled.
func (s *search) unfinishedStates() string {
	if !s.someUnfinishedStates() {
		return ""
	}
	var some []string
	for _, st := range s.States {
		switch st {
		case InFlight:
			some = append(some, "d.state = 'in_flight'")
		case Held:
			some = append(some, "(d.state IN ('scheduled', 'pending') AND ep.status = 'disabled')")
		case Scheduled:
			some = append(some, "(d.state = 'scheduled' AND d.next_retry_at > @now AND ep.status IS DISTINCT FROM 'disabled')")
		case Pending:
			some = append(some, "((d.state = 'pending' OR d.state = 'scheduled' AND d.next_retry_at <= @now)"+
				" AND ep.status IS DISTINCT FROM 'disabled')")
		case StateSucceeded, StateFailed, StateCancelled:
		}
	}
	return " AND (" + strings.Join(some, " OR ") + ")"
}

// finishedStates: one alone is looked for within deliveries_finished_unhappy, without a look at the rows.
func (s *search) finishedStates(args pgx.StrictNamedArgs) string {
	var wanted []string
	for _, st := range finishedStates {
		if s.wants(st) {
			wanted = append(wanted, st.String())
		}
	}
	switch len(wanted) {
	case len(finishedStates):
		return ""
	case 1:
		args["state"] = wanted[0]
		return " AND d.state = @state::delivery_state"
	}
	args["states"] = wanted
	return " AND d.state = ANY ((SELECT @states::text[]::delivery_state[])::delivery_state[])"
}
