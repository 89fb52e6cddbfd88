package intake_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

// What a group of enqueues reads, it looks up by index, whether it is planned for its values or once for all, and whatever
// the tables were like when it was: empty, as after a vacuum, or full of one tenant's.
func TestAcceptingReadsByIndexHoweverItWasPlanned(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	d.exec(t, `VACUUM (ANALYZE) tenants, endpoints, events, idempotency_keys, deliveries`)
	checkAcceptingPlans(t, d, "empty", ten, ten)
	fill(t, d, ten)
	checkAcceptingPlans(t, d, "full", ten, fillGroups(t, d, ten))
}

func checkAcceptingPlans(t *testing.T, d *desk, state string, ten, orderly id.ID) {
	t.Helper()
	shards, tenants := []int16{ten.Shard, orderly.Shard}, []int64{ten.N, orderly.N}
	for name, test := range map[string]struct {
		sql  string
		args pgx.StrictNamedArgs
		want []string // what the plan has
	}{
		"tenants": {
			intake.TenantsSQL,
			pgx.StrictNamedArgs{"shards": shards, "tenants": tenants},
			[]string{"on tenants", "id = asked.id)"},
		},
		"endpoints": {
			queued(func(b *pgx.Batch) { subscriptions.QueueCandidates(b, []id.ID{ten}, nil) }),
			pgx.StrictNamedArgs{"shards": shards, "tenants": tenants},
			[]string{"Index Scan using endpoints_by_tenant", "Index Cond: ((shard = t.shard) AND (tenant_id = t.id))"},
		},
		"what a key stands for": {
			intake.RecallSQL,
			pgx.StrictNamedArgs{
				"shards": shards, "tenants": tenants, "kinds": []string{"uid", "uid"}, "keys": []string{"u-6000", "u-1"},
			},
			[]string{
				"Index Scan using idempotency_keys_pkey",
				"(shard = lost.shard) AND (tenant_id = lost.tenant_id) AND (kind = lost.kind) AND (key = lost.key)",
				"(id = named.id)",
			},
		},
		"the newest of groups": {
			intake.NewestSQL,
			pgx.StrictNamedArgs{
				"shards": shards[1:], "tenants": tenants[1:], "froms": []int32{1}, "counts": []int32{2}, "groups": []int64{1, 2},
			},
			[]string{
				"Index Scan using endpoints_by_tenant", "Index Scan Backward using deliveries_in_group",
				"((shard)::bigint = endpoints.shard) AND (endpoint_id = endpoints.id) AND (group_id = g.group_id)",
			},
		},
	} {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			plan := explainAccepting(t, d, mode, test.sql, test.args)
			for _, want := range test.want {
				if !strings.Contains(plan, want) {
					t.Errorf("%s, %s, %s: no %s in\n%s", state, name, mode, want, plan)
				}
			}
			for _, other := range []string{"Seq Scan", "Bitmap", "Hash", "Merge Join", "events_p1", "events_p3"} {
				if strings.Contains(executed(plan), other) {
					t.Errorf("%s, %s, %s: %s in\n%s", state, name, mode, other, plan)
				}
			}
			if name != "what a key stands for" && strings.Contains(plan, "Sort") { // that one sorts the few rows it found
				t.Errorf("%s, %s, %s: sorted by\n%s", state, name, mode, plan)
			}
		}
	}
}

// queued is the SQL that is put into a batch.
func queued(queue func(b *pgx.Batch)) string {
	b := &pgx.Batch{}
	queue(b)
	return b.QueuedQueries[0].SQL
}

// explainAccepting plans a statement as it is within a group's transaction, but for the mode.
func explainAccepting(t *testing.T, d *desk, mode, sql string, named pgx.StrictNamedArgs) string {
	t.Helper()
	sql, args, err := named.RewriteQuery(t.Context(), nil, sql, nil)
	if err != nil {
		t.Fatal(err)
	}
	var plan string
	err = pg.InTx(t.Context(), d.db, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		pg.PlanByIndex(b)
		b.Queue(`SELECT set_config('plan_cache_mode', $1, true)`, mode)
		if err := tx.SendBatch(t.Context(), b).Close(); err != nil {
			return err
		}
		if _, err := tx.Prepare(t.Context(), "accepting", sql); err != nil {
			return err
		}
		places := make([]string, len(args))
		for n := range args {
			places[n] = fmt.Sprintf("$%d", n+1)
		}
		explain := `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE accepting(` + strings.Join(places, ", ") + `)`
		rows, err := tx.Query(t.Context(), explain, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		plan = strings.Join(lines, "\n")
		return tx.Conn().Deallocate(t.Context(), "accepting")
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}
