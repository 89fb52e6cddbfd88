package jobs

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
)

// erasureAct deletes some of what there is of a tenant: statements of one transaction, again and again while they delete as much as they may.
type erasureAct struct {
	what  string
	sql   []string
	full  int64  // fewer rows than that are the last
	waits string // asks whether, when those are done, the rest has to wait; "": it has not
}

// eraseMost is how many deliveries, events or other rows one transaction deletes.
const eraseMost = 500

const (
	unfinishedOfSQL = `SELECT d.shard, d.id FROM deliveries d
 WHERE d.shard::integer = @shard AND d.endpoint_id = ANY (@endpoints::bigint[]) AND d.lease_owner IS NULL ORDER BY d.id LIMIT @most`
	finishedOfSQL = `SELECT f.shard, f.id FROM deliveries_finished f
 WHERE f.shard::integer = @shard AND f.endpoint_id = ANY (@endpoints::bigint[]) ORDER BY f.endpoint_id, f.id LIMIT @most`
)

// erasureActs is all that there is of a tenant, table by table: the one place that deletes rows of others' tables, so that it can be seen
// at a glance, and held against the catalogue by a test, that nothing is left out.
//
// Deliveries go before everything else, those in flight when their attempts have ended, so that nothing is recorded of them any
// more. Of a delivery the row is locked by a statement before the one that deletes it and its attempts: whoever records an attempt that is
// late looks for the row with a lock too (erasedSQL in dispatcher), and either is waited for here or finds nothing and leaves nothing.
//
// Indexes: deliveries_due, deliveries_finished_by_endpoint, events_by_tenant and primary keys; of what is rare, the bucket's part of one.
var erasureActs = []erasureAct{
	{"delete what is not finished", []string{
		unfinishedOfSQL + ` FOR UPDATE`,
		`WITH x AS MATERIALIZED (` + unfinishedOfSQL + `), gone AS (DELETE FROM deliveries y USING x WHERE y.shard = x.shard AND y.id = x.id)
DELETE FROM attempts a USING x WHERE a.shard = x.shard AND a.delivery_id = x.id`,
	}, eraseMost, `SELECT EXISTS (SELECT FROM deliveries d WHERE d.shard::integer = @shard AND d.endpoint_id = ANY (@endpoints::bigint[]))`},
	{"delete deliveries and attempts", []string{
		finishedOfSQL + ` FOR UPDATE`,
		`WITH x AS MATERIALIZED (` + finishedOfSQL + `), gone AS (DELETE FROM deliveries_finished y USING x WHERE y.shard = x.shard AND y.id = x.id)
DELETE FROM attempts a USING x WHERE a.shard = x.shard AND a.delivery_id = x.id`,
	}, eraseMost, ""},
	{"delete events", []string{
		`DELETE FROM events_unrouted u USING events e WHERE u.shard = @shard AND e.shard = u.shard AND e.id = u.event_id AND e.tenant_id = @tenant`,
		`DELETE FROM events WHERE shard = @shard AND id = ANY (ARRAY(
    SELECT e.id FROM events e WHERE e.shard::integer = @shard AND e.tenant_id = @tenant LIMIT @most))`,
	}, eraseMost, ""},
	{"delete idempotency keys and uids", []string{
		`DELETE FROM idempotency_keys WHERE shard = @shard AND tenant_id = @tenant AND ctid = ANY (ARRAY(
    SELECT k.ctid FROM idempotency_keys k WHERE k.shard = @shard AND k.tenant_id = @tenant LIMIT @most))`,
	}, eraseMost, ""},
	{"delete figures", []string{
		`DELETE FROM endpoint_traffic WHERE shard = @shard AND endpoint_id = ANY (@endpoints::bigint[]) AND ctid = ANY (ARRAY(
    SELECT x.ctid FROM endpoint_traffic x WHERE x.shard = @shard AND x.endpoint_id = ANY (@endpoints::bigint[]) LIMIT @most))`,
	}, eraseMost, ""},
	{"delete alerts and their notices", []string{
		`DELETE FROM alert_notices n USING alerts a WHERE n.shard = @shard AND a.shard = n.shard AND a.id = n.alert_id AND a.tenant_id = @tenant`,
		`DELETE FROM alerts WHERE shard = @shard AND tenant_id = @tenant`,
		`DELETE FROM alert_pace WHERE shard = @shard AND tenant_id = @tenant`,
	}, 1 << 40, ""},
	{"delete schedules", []string{
		`DELETE FROM schedule_occurrences o USING schedules s WHERE o.shard = @shard AND s.shard = o.shard AND s.id = o.schedule_id AND s.tenant_id = @tenant`,
		`DELETE FROM schedules WHERE shard = @shard AND tenant_id = @tenant`,
	}, 1 << 40, ""},
	{"delete jobs", []string{
		`DELETE FROM job_chunks c USING jobs j WHERE c.shard = @shard AND j.shard = c.shard AND j.id = c.job_id AND j.tenant_id = @tenant`,
		`DELETE FROM jobs WHERE shard = @shard AND tenant_id = @tenant`,
		// The operator's own that name the tenant, or an endpoint of it.
		`DELETE FROM jobs j WHERE j.kind <> 'erase' AND j.finished_at IS NOT NULL
    AND EXISTS (SELECT FROM unnest(@names::text[]) n (name) WHERE strpos(j.spec::text, n.name) > 0)`,
	}, 1 << 40, ""},
	{"delete keys and sessions", []string{
		`DELETE FROM sessions WHERE tenant_shard = @shard AND tenant_id = @tenant`,
		`DELETE FROM portal_links WHERE tenant_shard = @shard AND tenant_id = @tenant`,
		`DELETE FROM api_keys WHERE tenant_shard = @shard AND tenant_id = @tenant`,
	}, 1 << 40, ""},
	{"delete entries of the audit log", []string{
		`DELETE FROM audit_log WHERE tenant_id = @tenant AND (shard, id) IN (SELECT x.shard, x.id FROM audit_log x WHERE x.tenant_id = @tenant LIMIT @most)`,
	}, eraseMost, ""},
	{"delete endpoints and the tenant", []string{
		`DELETE FROM endpoint_secrets WHERE shard = @shard AND endpoint_id = ANY (@endpoints::bigint[])`,
		`DELETE FROM endpoint_versions WHERE shard = @shard AND endpoint_id = ANY (@endpoints::bigint[])`,
		`DELETE FROM endpoint_pace WHERE shard = @shard AND endpoint_id = ANY (@endpoints::bigint[])`,
		`DELETE FROM endpoints WHERE shard = @shard AND id = ANY (@endpoints::bigint[])`,
		`DELETE FROM tenants WHERE shard = @shard AND id = @tenant`,
	}, 1 << 40, ""},
}

// args are those that a statement names.
func (e erasure) args(sql string) pgx.StrictNamedArgs {
	args := pgx.StrictNamedArgs{}
	for name, value := range map[string]any{
		"shard": e.tenant.Shard, "tenant": e.tenant.N, "endpoints": e.Endpoints, "most": eraseMost, "names": nil,
	} {
		if strings.Contains(sql, "@"+name) {
			args[name] = value
		}
	}
	if _, ok := args["names"]; ok {
		args["names"] = e.names() // thousands for the one statement of many that asks for them
	}
	return args
}

// names are the ids of the tenant and its endpoints, as they are spelled.
func (e erasure) names() []string {
	names := []string{fmt.Sprintf("%q", e.Tenant)}
	for _, n := range e.Endpoints {
		names = append(names, id.Endpoint.Format(id.ID{Shard: e.tenant.Shard, N: n}))
	}
	return names
}
