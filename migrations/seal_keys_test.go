package migrations_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/migrations"
)

// What was sealed before there was a register is on it afterwards.
func TestKeysInUseAreRegistered(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	for there := true; there; {
		if _, err := migrations.Down(t.Context(), pgtest.URL(t)); err != nil {
			t.Fatal(err)
		}
		if err := pool.QueryRow(t.Context(), `SELECT to_regclass('seal_keys') IS NOT NULL`).Scan(&there); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pool.Exec(t.Context(), `
INSERT INTO tenants (shard, id, name, created_at, updated_at) VALUES (get_byte(sha256(int8send(1)), 0), 1, 'Acme', '2026-01-01Z', '2026-01-01Z');
INSERT INTO endpoints (shard, id, tenant_id, url, scheme, status_changed_at, created_at, updated_at, headers_sealed, headers_key_id)
SELECT shard, 1 + n, 1, 'https://example.com', 'standard', '2026-01-01Z', '2026-01-01Z', '2026-01-01Z', k.sealed, k.key_id
  FROM tenants, (VALUES (1, '\x00'::bytea, 'aaaaaaaa'), (2, NULL, NULL)) AS k (n, sealed, key_id);
INSERT INTO endpoint_secrets (shard, endpoint_id, id, key_id, sealed, created_at, expires_at)
SELECT shard, 2, k.n, k.key_id, '\x00', k.at::timestamptz, k.at::timestamptz + interval '1 day'
  FROM tenants, (VALUES (1, 'bbbbbbbb', '2026-02-01Z'), (2, 'bbbbbbbb', '2026-02-02Z'), (3, 'aaaaaaaa', '2025-12-31Z')) AS k (n, key_id, at)`); err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Up(t.Context(), pgtest.URL(t)); err != nil {
		t.Fatal(err)
	}
	got := collect(t, pool, `SELECT id || ' ' || (first_used_at AT TIME ZONE 'UTC')::date FROM seal_keys WHERE proof IS NULL ORDER BY id`, pgx.RowTo[string])
	if want := []string{"aaaaaaaa 2025-12-31", "bbbbbbbb 2026-02-01"}; !slices.Equal(got, want) {
		t.Errorf("registered are %v, want %v", got, want)
	}
}
