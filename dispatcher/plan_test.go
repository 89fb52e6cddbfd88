package dispatcher

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// The statements of the hot path use the index that they are written for, whatever the tables' statistics say: empty and
// never analysed, and with a bucket full of work.
func TestPlansOfTheHotPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	endpoint := w.endpoint()
	wishes := pgx.StrictNamedArgs{
		"shard": endpoint.Shard, "endpoints": []int64{endpoint.N}, "slots": []int32{10}, "now": w.clock(), "owner": int64(1),
		"until": w.clock(), "inline": inlinePayload,
	}
	results := recordArgs(endpoint.Shard, []result{{claimed: claimed{Shard: endpoint.Shard, ID: 1, Attempts: 1}, made: true}}, w.clock())
	check := func(state string) {
		for name, c := range map[string]struct {
			sql  string
			args pgx.StrictNamedArgs
			want []string
		}{
			"claim":    {claimSQL, wishes, []string{"deliveries_due", "deliveries_pkey"}},
			"discover": {discoverSQL, pgx.StrictNamedArgs{"shard": endpoint.Shard}, []string{"deliveries_due"}},
			"record":   {recordSQL, results, []string{"deliveries_pkey"}},
			"rescue": {
				lostSQL,
				pgx.StrictNamedArgs{"shard": endpoint.Shard, "now": w.clock(), "limit": rescueBatch},
				[]string{"deliveries_leased"},
			},
		} {
			rows, err := w.db.Query(t.Context(), "EXPLAIN "+c.sql, c.args)
			if err != nil {
				t.Fatal(err)
			}
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			plan := strings.Join(lines, "\n")
			for _, index := range c.want {
				if !strings.Contains(plan, index) {
					t.Errorf("%s, %s: no %s in\n%s", state, name, index, plan)
				}
			}
			if strings.Contains(plan, "Seq Scan on deliveries") || name == "record" && strings.Contains(plan, "deliveries_leased") {
				t.Errorf("%s, %s:\n%s", state, name, plan)
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
