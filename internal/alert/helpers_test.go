package alert_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
)

// world is a database with one tenant and endpoints of it, all in one bucket.
type world struct {
	*testing.T
	db        *pgxpool.Pool
	ids       *id.Generator
	now       time.Time
	tenant    id.ID
	endpoints []int64
}

var start = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

func newWorld(t *testing.T, endpoints int) *world {
	t.Helper()
	w := &world{T: t, db: pgtest.Pool(t), now: start}
	w.ids = id.NewGenerator(1, func() time.Time { return start })
	w.tenant = w.addTenant("acme")
	for range endpoints {
		w.endpoints = append(w.endpoints, w.addEndpoint(w.tenant))
	}
	return w
}

func (w *world) addTenant(name string) id.ID {
	w.Helper()
	ten := w.ids.NewTenant()
	w.exec(`INSERT INTO tenants (shard, id, name, created_at, updated_at) VALUES ($1, $2, $3, $4, $4)`,
		ten.Shard, ten.N, name, w.now)
	return ten
}

func (w *world) addEndpoint(ten id.ID) int64 {
	w.Helper()
	n := w.ids.Next()
	w.exec(`INSERT INTO endpoints (shard, id, tenant_id, url, scheme, status_changed_at, created_at, updated_at)
		VALUES ($1, $2, $3, 'https://example.com/hook?token=hush', 'standard', $4, $4, $4)`, ten.Shard, n, ten.N, w.now)
	return n
}

func (w *world) exec(sql string, args ...any) {
	w.Helper()
	if _, err := w.db.Exec(w.Context(), sql, args...); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
}

func (w *world) one(sql string, args ...any) string {
	w.Helper()
	var s string
	if err := w.db.QueryRow(w.Context(), sql, args...).Scan(&s); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
	return s
}

// inTx runs what was queued as record does: in one transaction.
func inTx(ctx context.Context, db pg.Beginner, queue func(*pgx.Batch)) error {
	return pg.InTx(ctx, db, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		queue(b)
		if b.Len() == 0 {
			return nil
		}
		return tx.SendBatch(ctx, b).Close()
	})
}

func (w *world) do(queue func(*pgx.Batch)) {
	w.Helper()
	if err := inTx(w.Context(), w.db, queue); err != nil {
		w.Fatal(err)
	}
}
