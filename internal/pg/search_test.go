package pg_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
)

func TestSearchesLeaveConnectionsToOthers(t *testing.T) {
	t.Parallel()
	for conns, want := range map[int]int{1: 1, 3: 1, 8: 2, 16: 4, 100: 4} {
		s, db := pg.NewSearches(conns), &transactions{begun: make(chan struct{}), end: make(chan struct{})}
		done := make(chan error)
		for range want + 1 {
			go func() { done <- s.Run(t.Context(), db, func(pgx.Tx) error { return nil }) }()
		}
		for range want {
			<-db.begun
		}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if err := s.Run(ctx, db, nil); !fault.Is(err, fault.Unavailable) {
			t.Errorf("of %d connections: one more than %d: %v", conns, want, err)
		}
		close(db.end) // the last one has its turn
		<-db.begun
		for range want + 1 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
}

// transactions begin where the test sees it, and stay open until it ends them.
type transactions struct {
	pgx.Tx
	begun, end chan struct{}
}

func (t *transactions) Begin(context.Context) (pgx.Tx, error) {
	t.begun <- struct{}{}
	<-t.end
	return t, nil
}

func (t *transactions) Commit(context.Context) error   { return nil }
func (t *transactions) Rollback(context.Context) error { return pgx.ErrTxClosed }

func TestASearchIsBoundAlone(t *testing.T) {
	t.Parallel()
	db := pgtest.Pool(t)
	err := pg.NewSearches(8).Run(t.Context(), db, func(tx pgx.Tx) error {
		if err := pg.BoundSearch(t.Context(), tx, time.Millisecond, false); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), `SELECT pg_sleep(60)`)
		return pg.SearchFault(err, "since")
	})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "narrow it by since") {
		t.Errorf("got %v", err)
	}
	var left string
	err = db.QueryRow(t.Context(), `SELECT current_setting('statement_timeout') || current_setting('enable_sort')`).Scan(&left)
	if err != nil || left != "0on" {
		t.Errorf("what comes after it has %s, %v", left, err)
	}
}
