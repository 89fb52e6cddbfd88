package intake_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/intake"
)

// The fan-out looks every event up by its key, in the one partition that it lies in, whatever the tables are like.
func TestTheFanOutReadsByIndex(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	fill(t, d, ten)
	d.exec(t, `INSERT INTO events_unrouted (n, shard, event_id) SELECT n, $1, n << 22 FROM generate_series(5000::bigint, 5999) n`, ten.Shard)
	d.exec(t, `UPDATE events SET delivery_ids = NULL WHERE id BETWEEN 5000::bigint << 22 AND 5999::bigint << 22`)
	shards, ids := []int16{ten.Shard, ten.Shard}, []int64{5001 << 22, 5002 << 22}
	for _, test := range []struct { // in the order of the fan-out
		name string
		sql  string
		args pgx.StrictNamedArgs
		want []string
	}{
		{
			"what is to be fanned out", intake.UnroutedSQL,
			pgx.StrictNamedArgs{"after": int64(5000), "some": nil, "now": start, "limit": 2},
			[]string{"Index Scan using events_unrouted_pkey", "Index Cond: (n > ", "Index Scan using events_p2_pkey"},
		},
		{
			"one of them", intake.UnroutedSQL,
			pgx.StrictNamedArgs{"after": int64(5000), "some": []int64{5001}, "now": start, "limit": 2},
			[]string{"Index Scan using events_unrouted_pkey", "Index Scan using events_p2_pkey"},
		},
		{
			"payloads", intake.PayloadsSQL,
			pgx.StrictNamedArgs{"shards": shards, "ids": ids},
			[]string{"Index Scan using events_p2_pkey", "(id = a.id)"},
		},
		{
			"events that are done", intake.RoutedSQL,
			pgx.StrictNamedArgs{
				"shards": shards, "ids": ids, "deliveries": []int64{}, "delivery_froms": []int32{1, 1}, "delivery_counts": []int32{0, 0}, "skipped": nil,
			},
			[]string{"Index Scan using events_p2_pkey", "(shard = r.shard) AND (id = r.id)"},
		},
		{
			"their markers", intake.UnmarkSQL,
			pgx.StrictNamedArgs{"taken": []int64{5001, 5002}},
			[]string{"Index Scan using events_unrouted_pkey"},
		},
	} {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			plan := explainAccepting(t, d, mode, test.sql, test.args)
			for _, want := range test.want {
				if !strings.Contains(plan, want) {
					t.Errorf("%s, %s: no %s in\n%s", test.name, mode, want, plan)
				}
			}
			for _, other := range []string{"Seq Scan", "Bitmap", "Hash", "Merge Join", "Index Scan using events_p1", "Index Scan using events_p3"} {
				if strings.Contains(executed(plan), other) {
					t.Errorf("%s, %s: %s in\n%s", test.name, mode, other, plan)
				}
			}
		}
	}
}
