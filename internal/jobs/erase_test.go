package jobs_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/subscriptions"
)

const canary = "kanarienvogel"

// everything gives all rows of all tables as text, by the catalogue: a table that is new is among them.
func (s *shop) everything() map[string][]string {
	s.Helper()
	rows, err := s.db.Query(s.Context(), `SELECT c.relname FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace
		AND c.relkind IN ('r', 'p') AND NOT c.relispartition`)
	if err != nil {
		s.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 25 {
		s.Fatalf("%d tables, %v", len(tables), err)
	}
	all := map[string][]string{}
	for _, table := range tables {
		rows, err := s.db.Query(s.Context(), `SELECT to_jsonb(t)::text FROM `+pgx.Identifier{table}.Sanitize()+` t`)
		if err != nil {
			s.Fatal(err)
		}
		if all[table], err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			s.Fatal(err)
		}
	}
	return all
}

// life gives a tenant one of everything that can be of one, with the canary in it, and all its ids.
func (s *shop) life() (t subscriptions.Tenant, ids []int64) {
	s.Helper()
	t, err := s.store.CreateTenant(s.Context(), subscriptions.NewTenant{
		Name: canary, UID: ptr(canary), ContactEmail: ptr(canary + "@example.com"), Metadata: map[string]any{"a": canary},
	})
	if err != nil {
		s.Fatal(err)
	}
	url := "https://" + canary + ".example/"
	gone := s.endpoint(t, subscriptions.NewEndpoint{URL: url + "gone"})
	e := s.endpoint(t, subscriptions.NewEndpoint{URL: url})
	s.events(t, canary+".paid", 1200)
	s.finish("failed")
	s.events(t, canary+".paid", 7)
	own := strings.NewReplacer("{shard}", fmt.Sprint(t.ID.Shard), "{tenant}", fmt.Sprint(t.ID.N), "{endpoint}", fmt.Sprint(e.N))
	for _, sql := range []string{
		`INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, outcome, response_body)
			SELECT f.shard, f.id + 1, f.id, f.endpoint_id, 1, 1, 1, 'rejected', 'kanarienvogel' FROM (SELECT shard, id, endpoint_id FROM deliveries_finished
			UNION ALL SELECT shard, id, endpoint_id FROM deliveries) f`,
		`INSERT INTO idempotency_keys (shard, tenant_id, kind, key, digest, event_ids, created_at) VALUES ({shard}, {tenant}, 'uid', 'kanarienvogel', '', '{}', now())`,
		`INSERT INTO alerts (shard, id, tenant_id, endpoint_id, kind, detail, last_notice_id, opened_at, last_at)
			VALUES ({shard}, 71, {tenant}, {endpoint}, 'delivery.failed', 'kanarienvogel', 72, now(), now())`,
		`INSERT INTO alert_notices (shard, id, alert_id, kind, detail, next_try_at) VALUES ({shard}, 72, 71, 'opened', 'kanarienvogel', now())`,
		`INSERT INTO alert_pace (shard, tenant_id, road, window_at, told, quiet_until) VALUES ({shard}, {tenant}, 'mail', now(), 1, now())`,
		`INSERT INTO schedules (shard, id, tenant_id, description, cron, timezone, type, content_type, payload, late, paused, updated_at)
			VALUES ({shard}, 73, {tenant}, 'kanarienvogel', '@daily', 'UTC', 'a', 'text/plain', 'kanarienvogel', 'all', true, now())`,
		`INSERT INTO schedule_occurrences (shard, schedule_id, at, by_hand, error) VALUES ({shard}, 73, now(), true, 'kanarienvogel')`,
		`INSERT INTO endpoint_traffic (shard, endpoint_id, starts, id, outcome, attempts, finished, latency_from, latency)
			VALUES ({shard}, {endpoint}, now(), 74, 'succeeded', 1, 1, 0, '{}')`,
		`INSERT INTO endpoint_pace (shard, endpoint_id) VALUES ({shard}, {endpoint})`,
		`INSERT INTO sessions (hash, id, method, tenant_shard, tenant_id, name, created_at, seen_at, expires_at)
			VALUES (sha256('a'), 75, 'portal', {shard}, {tenant}, 'kanarienvogel', now(), now(), now())`,
		`INSERT INTO portal_links (hash, tenant_shard, tenant_id, read_only, created_at, expires_at) VALUES (sha256('b'), {shard}, {tenant}, true, now(), now())`,
		`INSERT INTO api_keys (id, name, hash, hint, scopes, tenant_shard, tenant_id, created_at)
			VALUES (76, 'kanarienvogel', sha256('c'), 'prk_', '{admin}', {shard}, {tenant}, now())`,
		`INSERT INTO jobs (shard, id, tenant_id, kind, spec, created_by, matched, gathered, next_at, state, finished_at)
			VALUES ({shard}, 77, {tenant}, 'retry', '{"q": "kanarienvogel"}', 'kanarienvogel', 1, true, now(), 'succeeded', now())`,
		fmt.Sprintf(`INSERT INTO jobs (shard, id, kind, spec, created_by, matched, gathered, next_at, state, finished_at)
			VALUES (0, 78, 'retry', '{"endpoint": "%s"}', 'me', 1, true, now(), 'succeeded', now())`, id.Endpoint.Format(e)),
		`INSERT INTO events_unrouted (n, shard, event_id) SELECT 1, shard, id FROM events WHERE tenant_id = {tenant} LIMIT 1`,
	} {
		s.exec(own.Replace(sql))
	}
	if _, err := s.store.DeleteEndpoint(s.Context(), t, id.Endpoint.Format(gone)); err != nil {
		s.Fatal(err)
	}
	rows, err := s.db.Query(s.Context(), `SELECT id FROM events WHERE tenant_id = $1 UNION ALL SELECT id FROM deliveries_finished WHERE tenant_id = $1`, t.ID.N)
	if err == nil {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	}
	if err != nil || len(ids) < 2400 {
		s.Fatalf("%d ids, %v", len(ids), err)
	}
	return t, append(ids, t.ID.N, e.N, gone.N)
}

// traces are tables with rows that name the canary or one of the ids, with one of these rows.
func (s *shop) traces(ids []int64) (found []string) {
	s.Helper()
	known := map[string]bool{}
	for _, n := range ids {
		known[fmt.Sprint(n)] = true
	}
	for table, rows := range s.everything() {
		for _, row := range rows {
			hit := strings.Contains(row, canary)
			for _, word := range strings.FieldsFunc(row, func(r rune) bool { return r < '0' || r > '9' }) {
				hit = hit || known[word]
			}
			if hit {
				found = append(found, table+": "+row[:min(len(row), 200)])
				break
			}
		}
	}
	slices.Sort(found)
	return found
}

func TestErasingATenantLeavesNothingOfIt(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	other := s.tenant()
	s.endpoint(other, subscriptions.NewEndpoint{})
	tenant, ids := s.life()
	s.events(other, "order.paid", 3)
	if before := s.traces(ids); len(before) < 20 {
		t.Fatalf("it has hardly anything: %v", before)
	}
	if _, err := s.jobs.Erase(s.Context(), tenant.ID); !fault.Is(err, fault.Conflict) {
		t.Errorf("one that is not deleted: %v", err)
	}
	if _, _, err := s.store.DeleteTenant(s.Context(), canary); err != nil {
		t.Fatal(err)
	}
	s.exec(`UPDATE deliveries SET state = 'in_flight', lease_owner = 1, leased_until = now(), attempts = 1
		WHERE id = (SELECT min(id) FROM deliveries WHERE tenant_id = $1)`, tenant.ID.N)
	j, err := s.jobs.Erase(s.Context(), tenant.ID)
	if err != nil || j.Kind != jobs.Erase || j.State != jobs.Queued {
		t.Fatalf("%+v, %v", j, err)
	}
	if again, err := s.jobs.Erase(s.Context(), tenant.ID); err != nil || again.ID != j.ID {
		t.Errorf("asked again it makes %+v, %v", again, err)
	}
	if did, err := s.jobs.RunOnce(s.Context()); did || err != nil {
		t.Errorf("the jobs of deliveries take it: %t, %v", did, err)
	}
	// What is in flight is waited for: what is recorded of it must find its place.
	if _, err := s.jobs.RunErasures(s.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.get(j.ID); got.State != jobs.Running || s.count(`SELECT count(*) FROM deliveries WHERE tenant_id = $1`, tenant.ID.N) != 1 ||
		s.count(`SELECT count(*) FROM events WHERE tenant_id = $1`, tenant.ID.N) == 0 {
		t.Errorf("with one in flight: %+v", got)
	}
	s.exec(`UPDATE deliveries SET state = 'pending', lease_owner = NULL, leased_until = NULL WHERE lease_owner IS NOT NULL`)
	if _, err := s.jobs.RunErasures(s.Context()); err != nil {
		t.Fatal(err)
	}
	got := s.get(j.ID)
	if got.State != jobs.Succeeded || got.Done < 3600 || got.Matched != got.Done || got.MatchedAtLeast {
		t.Errorf("at the end: %+v", got)
	}
	// What stays is that it was erased.
	left := s.traces(ids)
	if len(left) != 1 || !strings.HasPrefix(left[0], "audit_log") || !strings.Contains(left[0], "tenant.erased") {
		t.Errorf("left are\n%s", strings.Join(left, "\n"))
	}
	if n := s.count(`SELECT count(*) FROM deliveries WHERE tenant_id = $1`, other.ID.N); n != 3 {
		t.Errorf("another tenant has %d deliveries, want 3", n)
	}
	if n := s.count(`SELECT count(*) FROM job_chunks`); n != 0 {
		t.Errorf("%d chunks are left", n)
	}
	if _, err := s.jobs.Erase(s.Context(), tenant.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("one that is erased: %v", err)
	}
}

// A producer's own transaction, which goes on for long, enqueued before the tenant was deleted: its event does not outlive the tenant. A
// backup, which reads all there is, holds nothing up.
func TestErasingWaitsForWhoStillEnqueues(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tenant := s.tenant()
	producer, err := s.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Rollback(context.WithoutCancel(t.Context()))
	const enqueue = `SELECT enqueue(tenant => $1, type => 'a', payload => '{}')`
	if _, err := producer.Exec(t.Context(), enqueue, id.Tenant.Format(tenant.ID)); err != nil {
		t.Fatal(err)
	}
	backup, err := s.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer backup.Rollback(context.WithoutCancel(t.Context()))
	if _, err := backup.Exec(t.Context(), `SELECT FROM tenants, events, deliveries`); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.store.DeleteTenant(t.Context(), id.Tenant.Format(tenant.ID)); err != nil {
		t.Fatal(err)
	}
	j, err := s.jobs.Erase(t.Context(), tenant.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.jobs.RunErasures(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.get(j.ID); got.State != jobs.Queued {
		t.Errorf("while a producer has not committed it is %+v", got)
	}
	if err := producer.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.jobs.RunErasures(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.get(j.ID); got.State != jobs.Succeeded {
		t.Errorf("at the end: %+v", got)
	}
	if n := s.count(`SELECT count(*) FROM events WHERE tenant_id = $1`, tenant.ID.N); n != 0 {
		t.Errorf("%d events are left", n)
	}
}

func TestErasingCanBeStopped(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tenant := s.tenant()
	if _, _, err := s.store.DeleteTenant(s.Context(), id.Tenant.Format(tenant.ID)); err != nil {
		t.Fatal(err)
	}
	j, err := s.jobs.Erase(s.Context(), tenant.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.jobs.Cancel(s.Context(), j.ID); err != nil {
		t.Fatal(err)
	}
	if n, err := s.jobs.RunErasures(s.Context()); n != 0 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
	if n := s.count(`SELECT count(*) FROM tenants WHERE id = $1`, tenant.ID.N); n != 1 {
		t.Error("it is erased all the same")
	}
}

func ptr[T any](v T) *T { return &v }
