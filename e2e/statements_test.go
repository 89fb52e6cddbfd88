package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/pgtest"
)

// hot are the statements that run for each event, delivery and attempt, or again and again beside them, by words that only the one has.
// Each has to be heard under load.
var hot = map[string]string{
	"enqueue: tenants":                "FROM tenants WHERE shard =",
	"enqueue: endpoints":              "FROM endpoints e",
	"enqueue: events":                 "INSERT INTO events",
	"enqueue: deliveries":             "INSERT INTO deliveries (",
	"enqueue: idempotency keys":       "INSERT INTO idempotency_keys",
	"enqueue: what a key stands for":  "SELECT shard, tenant_id, kind, key, digest, event_ids FROM idempotency_keys",
	"fan-out of what came by SQL":     "UPDATE events e SET skipped",
	"discover":                        "(d.endpoint_id, d.lane) > (e.endpoint_id, e.lane)",
	"claim":                           "ORDER BY d.next_retry_at LIMIT w.slots FOR UPDATE SKIP LOCKED",
	"claim of groups":                 "WITH RECURSIVE heads",
	"claim of groups: one at a time":  "ORDER BY e.id FOR NO KEY UPDATE",
	"slots of a rate limit":           "endpoint_pace",
	"where to deliver":                "FROM endpoint_secrets",
	"record":                          "INSERT INTO attempts",
	"record: what changes for health": "e.failing_since IS NOT NULL LIMIT 1",
	"record: finished":                "INSERT INTO deliveries_finished",
	"rescue":                          "d.ctid >=",
	"fetch":                           "SELECT d.shard, d.id, d.event_id, d.next_retry_at FROM deliveries d",
}

// overAllBuckets are statements that look into tenants' tables without naming a bucket, by words that only the one has, each with the
// reason. Spread over several databases, each of them is asked by itself; none runs for an event, a delivery or an attempt but the two
// of the fan-out.
var overAllBuckets = map[string]string{
	"DELETE FROM events_unrouted":                         "the fan-out of what producers enqueue by SQL: the markers that it has just read, by number",
	"EXISTS (SELECT FROM events_unrouted":                 "the fan-out: whether there is a new marker in this database, in the order in which they were enqueued",
	"FROM (SELECT * FROM events_unrouted":                 "the fan-out: the new markers; their events are read by bucket",
	"SELECT DISTINCT shard FROM alert_notices":            "which buckets have notices that are to be sent; those are read by bucket",
	"SELECT a.kind::text, count(*) FROM alerts":           "a gauge",
	"e.deleted_at IS NOT NULL ORDER BY a.shard, a.id":     "upkeep: alerts of endpoints that are gone",
	"SELECT DISTINCT tenant_id FROM jobs":                 "upkeep: whose replays go on",
	"FROM jobs j WHERE j.kind = 'erase'":                  "upkeep: erasures that go on",
	"SELECT coalesce(min(id), 0) FROM alert_notices":      "a gauge",
	"FROM tenants WHERE keep_events_ms IS NOT NULL":       "upkeep: tenants that keep history for a time of their own",
	`count(*) FROM "attempts_default"`:                    "upkeep: what lies outside of the days' partitions",
	`count(*) FROM "deliveries_finished_default"`:         "the same",
	`count(*) FROM "events_default"`:                      "the same",
	"SELECT p.breaker::text, count(*) FROM endpoint_pace": "a gauge",
	"WITH first AS MATERIALIZED ( SELECT x.shard":         "a gauge: what is overdue, by bucket; joined from the endpoints' side while those are few",
	"WITH paused AS MATERIALIZED":                         "a gauge",
	"SELECT FROM attempts_default":                        "upkeep: what lies outside of the days' partitions",
	"SELECT FROM deliveries_finished_default":             "the same",
	"SELECT FROM events_default":                          "the same",
	"d.ctid >=":                                           "the rescue reads the table of this database block by block: docs/decisions/0015",
	"SELECT min(next_at) FROM jobs":                       "when the next step of a job is due",
	"RETURNING j.shard, j.id":                             "takes the job that is due first",
	"SELECT min(next_at) FROM schedules":                  "when the next schedule is due",
	"SELECT s.shard, s.id, s.tenant_id, coalesce(s.uid":   "takes the schedules that are due",
	"s.shard, s.id FROM schedules s JOIN tenants":         "upkeep: schedules of tenants that are gone",
	"SELECT state::text, count(*) FROM deliveries_fin":    "a gauge",
	"WITH of_endpoint AS":                                 "a gauge",
	"ORDER BY x.id DESC, x.shard DESC":                    "the review of deliveries over all tenants",
}

// Under a load of everything, each statement that reads or changes tenants' data finds its rows by an index with the bucket: in the
// plan for any values, each look into such a table is by an index and has `shard` among its conditions. So tenants can be spread over several
// databases by their bucket, and no statement has to ask them all.
func TestHotStatementsNameTheirBucket(t *testing.T) {
	t.Parallel()
	said, through := listenIn(t, pgtest.URL(t))
	everything(t, through)
	plans := newPlanner(t)
	used := map[string]bool{}
	for _, sql := range said.statements() {
		for name, words := range hot {
			if strings.Contains(oneLine(sql), words) {
				used[name] = true
				plans.seesMutants(sql)
			}
		}
		wrong := plans.withoutBucket(sql)
		if len(wrong) == 0 {
			continue
		}
		reason := ""
		for words := range overAllBuckets {
			if strings.Contains(oneLine(sql), words) {
				reason = overAllBuckets[words]
			}
		}
		if reason == "" {
			t.Errorf("looks into %s without the bucket:\n%s", strings.Join(wrong, ", "), sql)
		}
	}
	for name, words := range hot {
		if !used[name] {
			t.Errorf("nothing was heard of: %s, %s", name, words)
		}
	}
}

// ofBucket is a condition that names the bucket.
var ofBucket = regexp.MustCompile(`(\w+\.)?shard(::\w+)? = (\w+\.shard|\$\d+)(::\w+)? AND `)

// seesMutants takes the bucket from one place of a statement after the other: each time it has to be missed. Not so where a row that was
// read in the same statement is found again, which the planner knows to have the bucket that it was read by.
func (p *planner) seesMutants(sql string) {
	p.t.Helper()
	seen, all := 0, ofBucket.FindAllStringIndex(sql, -1)
	for _, at := range all {
		// One that cannot be prepared any more has lost what told a parameter's type.
		if tables, err := p.look(sql[:at[0]] + sql[at[1]:]); err != nil || len(tables) > 0 {
			seen++
		}
	}
	if seen < len(all) {
		p.t.Errorf("the bucket was taken out at %d places, and missed at %d, of\n%s", len(all), seen, sql)
	}
}

func oneLine(sql string) string { return strings.Join(strings.Fields(sql), " ") }

// everything has two processes do what there is to do, among others after a kill -9.
func everything(t *testing.T, database string) {
	t.Helper()
	env := settings{"DATABASE_URL": database}
	held := make(chan struct{}, 1)
	h := entertain(t, func(v visit) verdict {
		switch {
		case v.path == "/held" && v.attempt == 1:
			held <- struct{}{}
			<-t.Context().Done()
		case v.attempt == 1:
			return says(http.StatusInternalServerError)
		case v.path == "/never":
			return says(http.StatusUnauthorized)
		}
		return says(http.StatusOK)
	})
	p := start(t, env)
	tenant, other := p.tenant(), p.tenant()
	p.on(tenant, h, "/plain", nil)
	p.on(tenant, h, "/groups", object{"ordering": "group"})
	p.on(tenant, h, "/even", object{"rate_limit": object{"limit": 100, "per": "1s"}})
	p.on(tenant, h, "/never", nil)
	p.on(other, h, "/held", nil)
	pull := p.want(http.StatusCreated, http.MethodPost, "/v1/tenants/"+other+"/endpoints", object{"kind": "pull"}).text("id")
	p.batch(tenant, append(append(append(grouped("groups", 3, 2), many("even", 4)...), many("plain", 5)...), many("never", 2)...))
	for range 2 {
		p.do(http.MethodPost, "/v1/tenants/"+tenant+"/events/plain", "text/plain", []byte("x"), "Idempotency-Key", "one")
	}
	p.want(http.StatusAccepted, http.MethodPost, "/v1/tenants/"+tenant+"/events", object{"type": "plain", "payload": object{}, "uid": "a"})
	p.want(http.StatusAccepted, http.MethodPost, "/v1/tenants/"+other+"/events", object{"type": "held", "payload": object{}})
	<-held
	base := "/v1/tenants/" + other + "/endpoints/" + pull
	var tokens []string
	for _, m := range p.get(base + "/poll?wait=20s").list("data") {
		tokens = append(tokens, m.text("token"))
	}
	p.want(http.StatusOK, http.MethodPost, base+"/ack", object{"tokens": tokens})
	h.awaitServed(t, "/groups", 6)
	h.awaitServed(t, "/even", 4)
	h.awaitServed(t, "/plain", 7)
	p.kill()
	again := serve(t, env)
	eventually(t, again.unfinished)
	for _, d := range again.get("/v1/deliveries?state=failed").list("data") {
		again.want(http.StatusOK, http.MethodPost, "/v1/deliveries/"+d.text("id")+"/retry", nil)
	}
	producing(t, producersDatabase(t), tenant, "{}")
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	eventually(t, func() string { // its fan-out has to be heard
		var n int
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM postrider.events_unrouted`).Scan(&n); err != nil || n > 0 {
			return fmt.Sprintf("%d events without their fan-out, %v", n, err)
		}
		return ""
	})
	eventually(t, again.unfinished)
}

// planner asks PostgreSQL how it would run statements.
type planner struct {
	t       *testing.T
	conn    *pgx.Conn
	tenants map[string]bool // tables and partitions with a bucket
}

func newPlanner(t *testing.T) *planner {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	p := &planner{t: t, conn: conn, tenants: map[string]bool{}}
	// As the queue's statements are planned, for any values; what is pruned from a plan would go unseen.
	for _, set := range []string{
		"search_path = postrider", "plan_cache_mode = force_generic_plan", "enable_seqscan = off", "enable_bitmapscan = off", "enable_sort = off",
		"enable_hashjoin = off", "enable_mergejoin = off", "enable_partition_pruning = off",
	} {
		p.exec("SET " + set)
	}
	rows, err := conn.Query(t.Context(), `
SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'shard'
 WHERE c.relnamespace = 'postrider'::regnamespace AND c.relkind IN ('r', 'p')`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		p.tenants[name] = true
	}
	return p
}

func (p *planner) exec(sql string) {
	p.t.Helper()
	if _, err := p.conn.Exec(p.t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		p.t.Fatalf("%s: %v", sql, err)
	}
}

// node is what is looked at of a plan.
type planNode struct {
	Type      string     `json:"Node Type"`
	Relation  string     `json:"Relation Name"`
	Alias     string     `json:"Alias"`
	Index     string     `json:"Index Name"`
	Condition string     `json:"Index Cond"`
	Filter    string     `json:"Filter"`
	Join      string     `json:"Join Filter"`
	Plans     []planNode `json:"Plans"`
}

// withoutBucket gives the tenants' tables that a statement looks into without naming the bucket; none of one that cannot be planned, such
// as BEGIN.
func (p *planner) withoutBucket(sql string) (tables []string) {
	p.t.Helper()
	tables, err := p.look(sql)
	if err != nil {
		p.t.Fatalf("%s: %v", sql, err)
	}
	return tables
}

func (p *planner) look(sql string) (tables []string, err error) {
	p.t.Helper()
	ctx := p.t.Context()
	_, err = p.conn.Exec(ctx, "PREPARE heard AS "+sql, pgx.QueryExecModeSimpleProtocol)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "42601" { // a syntax error: PREPARE takes what has a plan
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer p.exec("DEALLOCATE heard")
	var parameters int
	if err := p.conn.QueryRow(ctx, `SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'heard'`).Scan(&parameters); err != nil {
		p.t.Fatal(err)
	}
	execute := "EXPLAIN (FORMAT JSON) EXECUTE heard"
	if parameters > 0 {
		execute += "(" + strings.Join(slices.Repeat([]string{"NULL"}, parameters), ", ") + ")"
	}
	var out string
	if err := p.conn.QueryRow(ctx, execute, pgx.QueryExecModeSimpleProtocol).Scan(&out); err != nil {
		p.t.Fatalf("%s\n%v", sql, err)
	}
	var plan []struct{ Plan planNode }
	if err := json.Unmarshal([]byte(out), &plan); err != nil {
		p.t.Fatal(err)
	}
	p.walk(plan[0].Plan, "", &tables)
	slices.Sort(tables)
	return slices.Compact(tables), nil
}

var bucketed = regexp.MustCompile(`\bshard\)?(::\w+)?\)? = `)

// walk goes through a plan. joins is what the joins above compare: of a table that is all but empty at the moment each row may be held
// against each of the other side's, the bucket first.
func (p *planner) walk(n planNode, joins string, without *[]string) {
	scan := strings.HasSuffix(n.Type, "Scan") && n.Type != "Bitmap Index Scan"
	// Of tables with nothing in them one index is as good as another: what the queue's indexes are is held by the packages' own tests.
	names := strings.HasPrefix(n.Type, "Index") && (bucketed.MatchString(n.Condition+" "+n.Filter) ||
		n.Alias != "" && regexp.MustCompile(`\b`+n.Alias+`\.shard = \w+\.shard\b|\b\w+\.shard = `+n.Alias+`\.shard\b`).MatchString(joins))
	if scan && p.tenants[n.Relation] && !names {
		*without = append(*without, fmt.Sprintf("%s (%s %s)", n.Relation, n.Type, n.Index))
	}
	for _, below := range n.Plans {
		p.walk(below, joins+" "+n.Join, without)
	}
}

// The look finds what names no bucket, and what names one and is no look-up by it.
func TestAStatementWithoutItsBucketIsSeen(t *testing.T) {
	t.Parallel()
	plans := newPlanner(t)
	for sql, seen := range map[string]bool{
		`SELECT FROM deliveries WHERE shard >= $1 AND id = $2`: true,
		`SELECT FROM events WHERE id = $1`:                     true,
		`SELECT FROM events WHERE shard = $1 AND id = $2`:      false,
		`SELECT FROM api_keys WHERE hash = $1`:                 false,
		`SELECT FROM endpoints e JOIN tenants t ON t.shard = e.shard AND t.id = e.tenant_id WHERE e.shard = ANY ($1::smallint[])`: false,
		`BEGIN`: false,
	} {
		if wrong := plans.withoutBucket(sql); (len(wrong) > 0) != seen {
			t.Errorf("%v in\n%s", wrong, sql)
		}
	}
}
