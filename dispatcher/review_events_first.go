package dispatcher

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"
)

// What only an event tells, its type and its payload, is looked for among the events, which name their deliveries: events lie
// in the order of their ids, and events_summary says of each few pages between which ids they are and which types they have.
//
// A delivery is made with its event, so its id comes right after. One that was made later, by a replay, is found by an index
// of such ones alone, deliveries_finished_late. So the candidates of a window are in three sets: of the window's events; of
// what was made late; and, for a text, of the endpoints whose uid begins with it.
const (
	// lateAfter is by how much ids differ of what was made more than five seconds apart. The indexes have it too.
	lateAfter = 5000 << 22

	candidatesHead = `WITH c AS MATERIALIZED (
    SELECT ev.shard, x.id FROM events ev CROSS JOIN LATERAL unnest(ev.delivery_ids) AS x(id)
    WHERE ev.id >= @events_from AND ev.id <= @events_to AND x.id >= @from AND x.id <= @to AND abs(x.id - ev.id) <= 20971520000`
	lateCandidates = ` UNION SELECT d.shard, d.id FROM $table d` + joinEvents
	isLate         = ` WHERE abs(d.id - d.event_id) > 20971520000 AND d.id >= @from AND d.id <= @to`
	// endpoints_by_uid. Uids are ASCII, and none has a ~.
	endpointCandidates = ` UNION SELECT d.shard, d.id FROM endpoints ep JOIN $table d
    ON d.shard::integer = ep.shard AND d.endpoint_id = ep.id`
	hasUID = ` WHERE ep.uid COLLATE "C" >= @text AND ep.uid COLLATE "C" < @text || '~' AND d.id >= @from AND d.id <= @to`

	matchText = `starts_with(ev.uid, @text) OR starts_with(ev.type, @text) OR position(@needle::bytea IN ev.payload) > 0`
	// orEndpoint is for deliveries beside their endpoint.
	orEndpoint = ` OR starts_with(ep.uid, @text)`
)

// candidates gives the ids of the window's deliveries that the filter may mean, as the query c.
func (s *search) candidates(args pgx.StrictNamedArgs) string {
	args["events_from"], args["events_to"] = int64(0), int64(0)
	sql := candidatesHead + s.eventsTenant(args) + s.ofType(args) + s.ofText(args, "")
	for table, wanted := range map[string]bool{
		"deliveries": s.wants(unfinishedStates...), "deliveries_finished": s.wants(finishedStates...),
	} {
		if !wanted {
			continue
		}
		in := func(sql string) string { return strings.ReplaceAll(sql, "$table", table) }
		if s.late {
			sql += in(lateCandidates) + isLate + s.ofType(args) + s.ofText(args, "")
		}
		if s.text != "" {
			sql += in(endpointCandidates)
			if s.EventType != "" {
				sql += joinEvents
			}
			sql += hasUID + s.ofType(args)
		}
	}
	return sql + ")"
}

// anyLateSQL: deliveries_late, deliveries_finished_late.
const anyLateSQL = `
SELECT EXISTS (SELECT FROM deliveries WHERE abs(id - event_id) > 20971520000 AND id >= @from AND id <= @to)
    OR EXISTS (SELECT FROM deliveries_finished WHERE abs(id - event_id) > 20971520000 AND id >= @from AND id <= @to)`

// findLate finds out whether there are late ones at all in the range: to look for them makes each statement dearer.
func (s *search) findLate(ctx context.Context, tx pgx.Tx) error {
	err := tx.QueryRow(ctx, anyLateSQL, pgx.StrictNamedArgs{"from": s.from, "to": s.to}).Scan(&s.late)
	if err != nil {
		return fmt.Errorf("look for late deliveries: %w", err)
	}
	return nil
}

// boundEvents gives the statement the ids of the window's events, if it asks for them.
func boundEvents(args pgx.StrictNamedArgs) {
	if _, asks := args["events_from"]; !asks {
		return
	}
	from, _ := args["from"].(int64)
	to, _ := args["to"].(int64)
	args["events_from"], args["events_to"] = max(from-lateAfter, 0), min(to, math.MaxInt64-lateAfter)+lateAfter
}

// eventsTenant: of one tenant, events_by_tenant.
func (s *search) eventsTenant(args pgx.StrictNamedArgs) string {
	if s.Tenant == nil {
		return ""
	}
	args["tenant"], args["shard"] = s.Tenant.N, s.Tenant.Shard
	return " AND ev.shard::integer = @shard AND ev.tenant_id = @tenant"
}

func (s *search) ofType(args pgx.StrictNamedArgs) string {
	if s.EventType == "" {
		return ""
	}
	args["event_type"] = s.EventType
	return " AND ev.type = @event_type"
}

func (s *search) ofText(args pgx.StrictNamedArgs, or string) string {
	if s.text == "" {
		return ""
	}
	args["text"], args["needle"] = s.text, []byte(s.text)
	return " AND (" + matchText + or + ")"
}
