package pg_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
)

// A transaction that is settled so looks rows up by the key also where the planner would read the table, and only that one is.
func TestIndexedTransactionsLookThingsUp(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	plan := func(tx pgx.Tx) string {
		t.Helper()
		rows, err := tx.Query(t.Context(), `EXPLAIN SELECT FROM user_agents a JOIN user_agents b USING (id)`)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "\n")
	}
	for _, indexed := range []bool{true, false} {
		err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
			if indexed {
				if err := pg.Indexed(t.Context(), tx); err != nil {
					return err
				}
			}
			if got := plan(tx); strings.Contains(got, "Seq Scan") == indexed || strings.Contains(got, "Hash Join") == indexed {
				t.Errorf("indexed %v:\n%s", indexed, got)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
