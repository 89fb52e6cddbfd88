package dispatcher

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

// The statements of the queue use the indexes that they are written for, whatever is known when they are planned: on empty
// tables, never analysed, for the parameters at hand and once for all; and again with a bucket full of work.
func TestPlansOfTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	endpoint := w.endpoint()
	one := []int16{endpoint.Shard}
	wishes := w.d.leaseArgs(w.clock(), withEvents)
	wishes["shards"], wishes["endpoints"], wishes["lanes"] = one, []int64{endpoint.N}, []int16{int16(laneFirst)}
	wishes["slots"], wishes["froms"], wishes["untils"] = []int32{10}, []time.Time{{}}, []time.Time{w.clock()}
	heads := w.d.leaseArgs(w.clock(), withEvents)
	heads["shard"], heads["endpoint"], heads["slots"], heads["group"] = endpoint.Shard, endpoint.N, 10, firstGroup
	heads["now"], heads["until_due"], heads["lane"] = w.clock(), w.clock(), laneOrdered
	heads["walk"], heads["late"], heads["returned"] = walkLimit, lateHeads, returnedHeads
	results := recordArgs([]result{{
		claimed: claimed{Shard: endpoint.Shard, ID: 1, Attempts: 1}, target: &subscriptions.Target{}, noAttempt: true,
	}}, 1, w.clock())
	statements := map[string]struct {
		sql  string
		args pgx.StrictNamedArgs
		want []string
	}{
		"claim":    {claimSQL, wishes, []string{"deliveries_due", "deliveries_pkey"}},
		"discover": {discoverSQL, pgx.StrictNamedArgs{"shards": one}, []string{"deliveries_due"}},
		"ordered":  {orderedSQL, heads, []string{"deliveries_in_group", "deliveries_pkey"}},
		"record":   {recordFirstSQL, results, []string{"deliveries_pkey"}},
		"look":     {lookSQL, frontOf(endpoint, w.clock()), []string{"deliveries_due"}},
		"fetch": {fetchSQL, pgx.StrictNamedArgs{
			"shard": endpoint.Shard, "endpoint": endpoint.N, "pull": lanePull, "now": w.clock(), "limit": 10, "leases": []int64{1},
			"until": w.clock(), "bytes": pullBytes, "inline": pullBytes, "bare": false,
		}, []string{"deliveries_due", "deliveries_pkey"}},
		"lapsed": {lapsedSQL, frontOf(endpoint, w.clock()), []string{"deliveries_due", "endpoints_pkey"}},
		"retake": {retakeSQL, pgx.StrictNamedArgs{
			"shard": endpoint.Shard, "ids": []int64{1}, "leases": []int64{1}, "attempts": []int32{1}, "pull": lanePull, "until": w.clock(),
		}, []string{"deliveries_pkey"}},
		"fates":   {fatesSQL, pgx.StrictNamedArgs{"shard": endpoint.Shard, "ids": []int64{1}}, []string{"deliveries_pkey", "deliveries_finished"}},
		"trouble": {troubleSQL, pgx.StrictNamedArgs{"shards": one, "endpoints": []int64{endpoint.N}}, []string{"endpoints_failing", "alerts_open_key"}},
	}
	check := func(state string) {
		for name, c := range statements {
			for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
				plan := planOf(t, w.queue, mode, c.sql, c.args)
				for _, index := range c.want {
					if !strings.Contains(plan, index) {
						t.Errorf("%s, %s, %s: no %s in\n%s", state, name, mode, index, plan)
					}
				}
				for _, other := range []string{"Seq Scan", "Bitmap", "Hash Join", "Merge Join"} {
					if strings.Contains(plan, other) {
						t.Errorf("%s, %s, %s: %s in\n%s", state, name, mode, other, plan)
					}
				}
				if name == "record" && strings.Contains(plan, "deliveries_due") {
					t.Errorf("%s, %s, %s:\n%s", state, name, mode, plan)
				}
			}
		}
	}
	check("empty")
	_, err := w.db.Exec(t.Context(), `INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, attempts,
			next_retry_at, lease_owner, leased_until)
		SELECT $1, n, 1, n, $2::bigint + n % 100, CASE WHEN n % 2 = 0 THEN 'in_flight' ELSE 'pending' END::delivery_state, 1, $3::timestamptz,
			CASE WHEN n % 2 = 0 THEN 1 END, CASE WHEN n % 2 = 0 THEN $3::timestamptz + interval '1 minute' END
		  FROM generate_series(1, 20000) n`, endpoint.Shard, endpoint.N, w.clock())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.db.Exec(t.Context(), `ANALYZE deliveries`); err != nil {
		t.Fatal(err)
	}
	check("full")
}

// planOf gives the plan of a statement as the pool's connections make it, but for the mode; nothing is carried out.
func planOf(t *testing.T, db pg.Beginner, mode, sql string, named pgx.StrictNamedArgs) (plan string) {
	t.Helper()
	sql, args, err := named.RewriteQuery(t.Context(), nil, sql, nil)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `SELECT set_config('plan_cache_mode', $1, true)`, mode); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Prepare(t.Context(), "explained", sql); err != nil {
		t.Fatal(err)
	}
	places := make([]string, len(args))
	for n := range args {
		places[n] = fmt.Sprintf("$%d", n+1)
	}
	query := `EXPLAIN (COSTS OFF) EXECUTE explained(` + strings.Join(places, ", ") + `)`
	rows, err := tx.Query(t.Context(), query, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Conn().Deallocate(t.Context(), "explained"); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
