package migrations_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pgcluster"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/migrations"
)

// An event whose fan-out is still to come has no place in the schema before: the way down is refused, and nothing is lost.
func TestDownIsRefusedWhileEventsAreToBeFannedOut(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	down := func() {
		t.Helper()
		for {
			all, err := migrations.List(t.Context(), pgtest.URL(t))
			if err != nil {
				t.Fatal(err)
			}
			if applied(all) <= 16 {
				return
			}
			if _, err := migrations.Down(t.Context(), pgtest.URL(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	down()
	if _, err := pool.Exec(t.Context(), `
INSERT INTO tenants (shard, id, uid, name, created_at, updated_at) VALUES (get_byte(sha256(int8send(1)), 0), 1, 'acme', 'Acme', now(), now());
SELECT postrider.enqueue('acme', 'order.paid', 'x')`); err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Down(t.Context(), pgtest.URL(t)); err == nil || !strings.Contains(err.Error(), "1 events are still to be fanned out") {
		t.Errorf("the way down: %v", err)
	}
	if n := collect(t, pool, `SELECT count(*) FROM events JOIN events_unrouted ON event_id = id`, pgx.RowTo[int]); n[0] != 1 {
		t.Error("the event is gone")
	}
	if _, err := pool.Exec(t.Context(), `UPDATE events SET delivery_ids = '{}'; DELETE FROM events_unrouted`); err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Down(t.Context(), pgtest.URL(t)); err != nil {
		t.Error(err)
	}
	if n := collect(t, pool, `SELECT count(*) FROM events`, pgx.RowTo[int]); n[0] != 1 {
		t.Error("the event is gone")
	}
	if _, err := migrations.Up(t.Context(), pgtest.URL(t)); err != nil {
		t.Error(err)
	}
}

// Databases of one server that are migrated at once share the producers' role, whoever makes it. One whose user may not make roles
// goes without.
func TestTheProducersRoleIsOneForTheServer(t *testing.T) {
	t.Parallel()
	cluster, err := pgcluster.Start(t.Context(), pgcluster.Options{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	admin, err := pgx.Connect(t.Context(), cluster.AdminURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.WithoutCancel(t.Context())) })
	exec := func(sql string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`DROP ROLE ` + pgcluster.ProducerRole)
	if _, err := migrations.Up(t.Context(), cluster.URL()); err != nil {
		t.Errorf("as one who may not make roles: %v", err)
	}
	var all sync.WaitGroup
	var urls []string
	for n := range 5 {
		exec(fmt.Sprint(`CREATE DATABASE shop`, n))
		u, err := url.Parse(cluster.AdminURL())
		if err != nil {
			t.Fatal(err)
		}
		u.Path = fmt.Sprint("/shop", n)
		urls = append(urls, u.String())
		all.Go(func() {
			if _, err := migrations.Up(t.Context(), u.String()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for n, u := range append(urls, cluster.URL()) {
		if got := mayEnqueue(t, u); got != (n < len(urls)) {
			t.Errorf("database %d: producers may enqueue: %v", n, got)
		}
	}
	if _, err := migrations.Down(t.Context(), urls[0]); err != nil {
		t.Error(err)
	}
	if !mayEnqueue(t, urls[1]) {
		t.Error("another database's way down took the role away")
	}
}

// mayEnqueue reports whether members of postrider_producer may call the function, which nobody else may.
func mayEnqueue(t *testing.T, url string) (may bool) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	err = conn.QueryRow(t.Context(), `
SELECT EXISTS (SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_roles r ON r.rolname = 'postrider_producer'
 WHERE p.proname = 'enqueue' AND n.nspname = 'postrider' AND p.prosecdef AND p.proconfig = ARRAY['search_path=pg_catalog, postrider, pg_temp', 'standard_conforming_strings=on']
   AND has_function_privilege(r.oid, p.oid, 'EXECUTE') AND has_schema_privilege(r.oid, n.oid, 'USAGE')
   AND NOT EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = 0))`).Scan(&may)
	if err != nil {
		t.Fatal(err)
	}
	return may
}
