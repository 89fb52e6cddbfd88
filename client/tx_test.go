package client_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/pgtest"
)

// withTenant is a database with a tenant and an endpoint of it.
func withTenant(t *testing.T) *pgxpool.Pool {
	t.Helper()
	db := pgtest.Pool(t)
	if _, err := db.Exec(t.Context(), `
WITH made AS (
    INSERT INTO tenants (shard, id, uid, name, created_at, updated_at)
    VALUES (get_byte(sha256(int8send(7)), 0), 7, 'acme', 'Acme', now(), now()) RETURNING *)
INSERT INTO endpoints (shard, id, tenant_id, uid, url, scheme, status_changed_at, created_at, updated_at)
SELECT shard, 8, id, 'hook', 'https://example.com', 'standard', now(), now(), now() FROM made`); err != nil {
		t.Fatal(err)
	}
	return db
}

func begin(t *testing.T, db *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(t.Context()) })
	return tx
}

func TestEnqueueTx(t *testing.T) {
	t.Parallel()
	db := withTenant(t)
	at := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	e := client.Event{
		Tenant: "acme", Type: "order.paid", Payload: []byte("\x00\xff{ "), ContentType: "application/octet-stream", UID: "paid-1", GroupKey: "order-1",
		DeliverAt: at, EndpointIDs: []string{"hook"}, Metadata: map[string]any{"<a>": []any{1, nil, `\u0000`}},
	}
	tx := begin(t, db)
	id, err := client.EnqueueTx(t.Context(), tx, e)
	if err != nil || !strings.HasPrefix(id, "evt_") {
		t.Fatal(id, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, db); n != 0 {
		t.Errorf("after the rollback there are %d", n)
	}

	tx = begin(t, db)
	if id, err = client.EnqueueTx(t.Context(), tx, e); err != nil {
		t.Fatal(err)
	}
	if again, err := client.EnqueueTx(t.Context(), tx, e); err != nil || again != id {
		t.Errorf("again: %s, %v; at first %s", again, err, id)
	}
	if _, err := client.EnqueueTx(t.Context(), tx, client.Event{Tenant: "acme", Type: "order.shipped"}); err != nil { // without anything
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again, err := client.EnqueueTx(t.Context(), db, e); err != nil || again != id {
		t.Errorf("after the commit: %s, %v; at first %s", again, err, id)
	}
	if n := count(t, db); n != 2 {
		t.Errorf("after the commit there are %d", n)
	}
	var got client.Event
	var metadata string
	err = db.QueryRow(t.Context(), `SELECT type, payload, content_type, uid, group_key, deliver_at, metadata::text FROM events WHERE uid IS NOT NULL`).
		Scan(&got.Type, &got.Payload, &got.ContentType, &got.UID, &got.GroupKey, &got.DeliverAt, &metadata)
	if err != nil {
		t.Fatal(err)
	}
	if got.Type != e.Type || string(got.Payload) != string(e.Payload) || got.ContentType != e.ContentType || got.UID != e.UID ||
		got.GroupKey != e.GroupKey || !got.DeliverAt.Equal(at) || metadata != `{"<a>": [1, null, "\\u0000"]}` {
		t.Errorf("stored is %+v with %s", got, metadata)
	}
	var plain string
	err = db.QueryRow(t.Context(), `SELECT content_type FROM events WHERE uid IS NULL AND payload = '' AND group_key IS NULL AND deliver_at IS NULL AND metadata IS NULL`).Scan(&plain)
	if err != nil || plain != "application/json" {
		t.Error(plain, err)
	}
}

func count(t *testing.T, db *pgxpool.Pool) (n int) {
	t.Helper()
	if err := db.QueryRow(t.Context(), `SELECT count(*) FROM events`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// What is refused says what is wrong and where, with the status that it has over HTTP. What is no refusal of ours is left as it is.
func TestEnqueueTxRefuses(t *testing.T) {
	t.Parallel()
	db := withTenant(t)
	if _, err := client.EnqueueTx(t.Context(), db, client.Event{Tenant: "acme", Type: "t", UID: "taken"}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		e       client.Event
		status  int // 0: before the database is asked
		pointer string
	}{
		"no tenant":          {client.Event{Tenant: "nobody", Type: "t"}, 404, "/tenant"},
		"no type":            {client.Event{Tenant: "acme"}, 422, "/type"},
		"other content":      {client.Event{Tenant: "acme", Type: "t", UID: "taken", Payload: []byte("x")}, 422, "/uid"},
		"a large payload":    {client.Event{Tenant: "acme", Type: "t", Payload: make([]byte, 1<<20+1)}, 413, "/payload"},
		"no endpoint":        {client.Event{Tenant: "acme", Type: "t", EndpointIDs: []string{"hook", "x"}}, 422, "/endpoint_ids/1"},
		"an empty list":      {client.Event{Tenant: "acme", Type: "t", EndpointIDs: []string{}}, 422, "/endpoint_ids"},
		"far ahead":          {client.Event{Tenant: "acme", Type: "t", DeliverAt: time.Now().Add(91 * 24 * time.Hour)}, 422, "/deliver_at"},
		"a number too large": {client.Event{Tenant: "acme", Type: "t", Metadata: map[string]any{"a": json.Number("1e309")}}, 422, "/metadata"},
		"NUL":                {client.Event{Tenant: "acme", Type: "t", GroupKey: "a\x00"}, 0, "/group_key"},
		"no UTF-8":           {client.Event{Tenant: "acme", Type: "t", UID: "\xff"}, 0, "/uid"},
		"NUL in metadata":    {client.Event{Tenant: "acme", Type: "t", Metadata: map[string]any{"a": "\x00"}}, 0, "/metadata"},
		"no JSON":            {client.Event{Tenant: "acme", Type: "t", Metadata: map[string]any{"a": func() {}}}, 0, "/metadata"},
		"a key":              {client.Event{Tenant: "acme", Type: "t", IdempotencyKey: "k"}, 0, ""},
	} {
		tx := begin(t, db)
		_, err := client.EnqueueTx(t.Context(), tx, c.e)
		e := refusal(t, err)
		if e.Status != c.status || len(e.Errors) != 1 || e.Errors[0].Pointer != c.pointer || e.Errors[0].Detail == "" {
			t.Errorf("%s: %d %+v", name, e.Status, e.Errors)
		}
		if _, err := tx.Exec(t.Context(), `SELECT`); (err == nil) != (c.status == 0) {
			t.Errorf("%s: the transaction goes on: %v", name, err == nil)
		}
		_ = tx.Rollback(t.Context())
	}
	if n := count(t, db); n != 1 {
		t.Errorf("there are %d", n)
	}
	if _, err := db.Exec(t.Context(), `DROP FUNCTION enqueue`); err != nil {
		t.Fatal(err)
	}
	_, err := client.EnqueueTx(t.Context(), db, client.Event{Tenant: "acme", Type: "t"})
	var e *client.Error
	var pgErr *pgconn.PgError
	if errors.As(err, &e) || !errors.As(err, &pgErr) || pgErr.Code != "42883" {
		t.Errorf("without the function: %v", err)
	}
}
