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

// sql puts the statement together from constant parts, one half for each table that can hold what is asked for. Within a
// half, each bucket gives its newest rows up to the page's size by walking one index backwards, and the newest of all of
// them make the page. So the cost goes with buckets and page, not with the tables.
func (s *search) sql(now time.Time) (string, pgx.StrictNamedArgs) {
	args := pgx.StrictNamedArgs{
		"shards": s.shards, "now": now, "below": s.below.N, "below_shard": s.below.Shard,
		"from": int64(0), "to": int64(0), "limit": 0, // each window's own
	}
	conditions, joins := s.common(args)
	var halves []string
	if s.wants(unfinishedStates...) {
		halves = append(halves, "(SELECT "+unfinishedColumns+" FROM unnest(@shards::smallint[]) AS b(shard)"+
			" CROSS JOIN LATERAL (SELECT d.* FROM deliveries d"+joins+pageStart+conditions+s.unfinishedStates()+pageEnd+")")
	}
	if s.wants(finishedStates...) {
		buckets := "unnest(@shards::smallint[]) AS b(shard)"
		if s.Tenant != nil && s.Endpoint == nil && s.Event == nil && s.delivery == nil {
			buckets, conditions = tenantsEndpoints, conditions+" AND d.shard::integer = b.shard AND d.endpoint_id = b.endpoint_id"
		}
		halves = append(halves, "(SELECT "+finishedColumns+" FROM "+buckets+
			" CROSS JOIN LATERAL (SELECT d.* FROM deliveries_finished d"+joins+pageStart+conditions+s.finishedStates(args)+pageEnd+")")
	}
	return shownHead + strings.Join(halves, " UNION ALL ") + " ORDER BY id DESC, shard DESC LIMIT @limit" + shownTail, args
}

// A bucket's part of a page: deliveries_pkey, or the partitions' primary keys, backwards, unless a condition below names
// a better index. The bounds on id let PostgreSQL leave out the partitions of other days.
const (
	pageStart = ` WHERE d.shard = b.shard AND d.id >= @from AND d.id <= @to
    AND (d.id < @below::bigint OR d.id = @below AND d.shard < @below_shard::smallint)`
	pageEnd = ` ORDER BY d.id DESC LIMIT @limit) d`

	// A tenant's finished deliveries are found by its endpoints, deleted ones too, through
	// deliveries_finished_by_endpoint: a small tenant does not pay for a large one in the same bucket.
	tenantsEndpoints = `(SELECT t.shard, t.id AS endpoint_id FROM endpoints t
    WHERE t.shard = ANY (@shards::smallint[]) AND t.tenant_id = @tenant) AS b`

	// ofEvent is the ids of an event's deliveries, which it names itself.
	ofEvent = `(SELECT e.delivery_ids FROM events e WHERE e.shard = @shard AND e.id = @event)::bigint[]`

	joinEvents = ` LEFT JOIN events ev ON ev.shard = b.shard AND ev.id = d.event_id`
	// The halves need the endpoint only for what they filter by; what is shown of it comes after the limit.
	joinEndpoints = ` LEFT JOIN endpoints ep ON ep.shard = b.shard AND ep.id = d.endpoint_id`

	// Reading payloads is what makes this slow where little matches: pg.SearchPatience bounds it.
	matchText = ` AND (starts_with(ev.uid, @text) OR starts_with(ev.type, @text) OR starts_with(ep.uid, @text)
    OR position(@needle::bytea IN ev.payload) > 0)`
)

// common gives the conditions and joins that both halves have.
func (s *search) common(args pgx.StrictNamedArgs) (conditions, joins string) {
	add := func(condition, name string, value any) {
		conditions += condition
		args[name] = value
	}
	if s.Tenant != nil { // a filter on the bucket's index: no index of its own
		add(" AND d.tenant_id = @tenant", "tenant", s.Tenant.N)
	}
	if s.Endpoint != nil { // deliveries_finished_by_endpoint
		add(" AND d.shard::integer = b.shard AND d.endpoint_id = @endpoint", "endpoint", s.Endpoint.N)
	}
	if s.Event != nil { // the primary keys; an event lies in one bucket, which place has found
		add(" AND d.id = ANY ("+ofEvent+")", "event", s.Event.N)
		args["shard"] = s.Event.Shard
	}
	if s.delivery != nil { // the primary keys
		add(" AND d.id = @delivery", "delivery", s.delivery.N)
	}
	if len(s.Outcomes) > 0 {
		names := make([]string, len(s.Outcomes))
		for i, o := range s.Outcomes {
			names[i] = o.String()
		}
		add(" AND d.last_outcome = ANY (@outcomes::text[]::outcome[])", "outcomes", names)
	}
	if s.EventType != "" {
		add(" AND ev.type = @event_type", "event_type", s.EventType)
	}
	if s.text != "" {
		add(matchText, "text", s.text)
		args["needle"] = []byte(s.text)
	}
	if s.EventType != "" || s.text != "" {
		joins += joinEvents
	}
	if s.text != "" || s.someUnfinishedStates() {
		joins += joinEndpoints
	}
	return conditions, joins
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

// unfinishedStates spells in columns what shownHead spells as a CASE: held and pending exclude each other, and so do
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

// finishedStates: failed ones alone are what deliveries_finished_failed is for.
func (s *search) finishedStates(args pgx.StrictNamedArgs) string {
	var wanted []string
	for _, st := range finishedStates {
		if s.wants(st) {
			wanted = append(wanted, st.String())
		}
	}
	if len(wanted) == 1 && wanted[0] == StateFailed.String() {
		return " AND d.state = 'failed'"
	}
	if len(wanted) == len(finishedStates) {
		return ""
	}
	args["states"] = wanted
	return " AND d.state = ANY (@states::text[]::delivery_state[])"
}
