package pg_test

import (
	"testing"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
)

func TestAReadIsRunAgainOnce(t *testing.T) {
	t.Parallel()
	for sql, tries := range map[string]int{
		`SELECT 1`:   1,
		`SELECT 1/0`: 1, // its own fault
		`SELECT 1 FROM pg_terminate_backend(pg_backend_pid())`:          2,
		`DO 'BEGIN RAISE EXCEPTION ''x'' USING ERRCODE=''40P01''; END'`: 2,
	} {
		db, n := pgtest.Pool(t), 0
		_, _ = pg.ReadAgain(t.Context(), func() (struct{}, error) {
			n++
			_, err := db.Exec(t.Context(), sql)
			return struct{}{}, err
		})
		if n != tries {
			t.Errorf("%s: run %d times", sql, n)
		}
	}
}
