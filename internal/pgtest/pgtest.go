// Package pgtest gives each test a database of its own with Postrider's schema in it, on the server that
// POSTRIDER_TEST_DATABASE_URL names. It starts no server: `make test` does, or
//
//	go run ./scripts/withpg -- go test ./...
//
// A database, and not just a schema, is what keeps tests apart: NOTIFY, advisory locks and vacuum are per database, and
// the tables are in the schema `postrider` as they are in production. It is copied from a template that is migrated once
// for a server. With the server's files in memory, as withpg has them, a database is there in 20 ms and gone in 5, where
// running the migrations took 40; on a slow disk it is 300 ms against 90.
package pgtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pg"
)

const (
	urlVariable   = "POSTRIDER_TEST_DATABASE_URL"
	adminVariable = "POSTRIDER_TEST_ADMIN_URL"
	keepVariable  = "POSTRIDER_TEST_KEEP"
)

const (
	poolConns   = 8 // the server takes 200; two packages with two tests each at a time have four pools, some have more
	actPatience = time.Minute
)

// URL gives the URL of the test's own database, as the owner, who is no superuser. A further call in the same test gives
// the same one; a subtest has its own. The database is dropped when the test is over, with who is still connected, unless
// the test failed and POSTRIDER_TEST_KEEP is 1: then the log says where it is.
func URL(t testing.TB) string {
	t.Helper()
	return databaseOf(t).url
}

// AdminURL gives the same database as the superuser, for what its owner may not do, such as making roles. What is made so
// outside of the database, the test removes itself.
func AdminURL(t testing.TB) string {
	t.Helper()
	return withDatabase(t, variable(t, adminVariable), databaseOf(t).name)
}

// Pool gives a pool of at most 8 connections to the test's own database, made as the program makes its own. It is closed
// when the test is over; a connection that was not given back by then fails the test.
func Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	db := databaseOf(t)
	db.pooled.Do(func() {
		ctx, cancel := context.WithTimeout(t.Context(), actPatience)
		defer cancel()
		pool, err := pg.Open(ctx, db.url, poolConns)
		if err != nil {
			t.Fatalf("pgtest: %v", err)
		}
		db.pool = pool
		t.Cleanup(func() { closePool(t, pool) })
	})
	return db.pool
}

func closePool(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Errorf("pgtest: %d connections were not given back to the pool", pool.Stat().AcquiredConns())
	}
}

// database is a test's own.
type database struct {
	name, url string
	pooled    sync.Once
	pool      *pgxpool.Pool
}

var (
	ofTestMu sync.Mutex
	ofTest   = map[testing.TB]*database{}
)

// databaseOf makes the test's database when it is first asked for.
func databaseOf(t testing.TB) *database {
	t.Helper()
	ofTestMu.Lock()
	db := ofTest[t]
	ofTestMu.Unlock()
	if db != nil {
		return db
	}
	base := variable(t, urlVariable)
	ctx, cancel := context.WithTimeout(t.Context(), actPatience)
	defer cancel()
	name, err := create(ctx, base)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	db = &database{name: name, url: withDatabase(t, base, name)}
	ofTestMu.Lock()
	ofTest[t] = db
	ofTestMu.Unlock()
	t.Cleanup(func() { forget(t, base, db) })
	return db
}

func forget(t testing.TB, base string, db *database) {
	t.Helper()
	ofTestMu.Lock()
	delete(ofTest, t)
	ofTestMu.Unlock()
	if t.Failed() && os.Getenv(keepVariable) == "1" {
		t.Logf("pgtest: kept for you: %s", db.url)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), actPatience)
	defer cancel()
	// Only a superuser can throw out a superuser, should the test have been connected as one.
	if admin := os.Getenv(adminVariable); admin != "" {
		base = admin
	}
	err := onServer(ctx, base, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `DROP DATABASE `+db.name+` WITH (FORCE)`)
		return err
	})
	if err != nil {
		t.Errorf("pgtest: drop the test's database: %v", err)
	}
}

// variable reads the environment. Without a server a test fails: one that is passed over looks like one that passed.
func variable(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("pgtest: %s is not set: use `make test`, or `go run ./scripts/withpg -- go test ./...`", name)
	}
	return value
}

// onServer acts on a connection made for it: a pool kept for the process would be a leak to goleak.
func onServer(ctx context.Context, url string, act func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to the test server: %w", err)
	}
	err = act(conn)
	if closeErr := conn.Close(ctx); err == nil && closeErr != nil {
		return fmt.Errorf("leave the test server: %w", closeErr)
	}
	return err
}
