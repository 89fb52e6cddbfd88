//go:build ops

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
)

const (
	opsDays   = 40 // of which the first ten are over
	opsOver   = opsDays - 30
	opsPerDay = 2500 // of events, deliveries and attempts each
)

// history fills days of the past with what is done, and with one delivery each that still waits.
func history(t *testing.T, db *pgxpool.Pool, tenant, endpoint id.ID) {
	t.Helper()
	today := time.Now().UTC().Truncate(24 * time.Hour)
	for back := opsDays; back > 1; back-- {
		day := today.Add(-time.Duration(back) * 24 * time.Hour)
		from, to := id.Floor(day), id.Floor(day.Add(24*time.Hour))
		for _, table := range []string{"events", "deliveries_finished", "attempts"} {
			sql := fmt.Sprintf(`CREATE TABLE %s_%s PARTITION OF %s FOR VALUES FROM (%d) TO (%d)`, table, day.Format("20060102"), table, from, to)
			if _, err := db.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		step := (to - from) / (opsPerDay + 1)
		for _, sql := range []string{
			`INSERT INTO events (shard, id, tenant_id, type, content_type, payload, delivery_ids)
				SELECT @shard, @from + n * @step, @tenant, 'old', 'text/plain', 'old', ARRAY[@from + n * @step + 1] FROM generate_series(0, @n) n`,
			`INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts, last_outcome, finished_at)
				SELECT @shard, @from + n * @step + 1, @tenant, @from + n * @step, @endpoint, 'succeeded', 1, 'succeeded', now() FROM generate_series(1, @n) n`,
			`INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, outcome)
				SELECT @shard, @from + n * @step + 2, @from + n * @step + 1, @endpoint, 1, 1, 1, 'succeeded' FROM generate_series(1, @n) n`,
			`INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, next_retry_at)
				VALUES (@shard, @from + 1, @tenant, @from, @endpoint, 'scheduled', now() + interval '1 day')`,
		} {
			sql = strings.NewReplacer("@shard", fmt.Sprint(tenant.Shard), "@from", fmt.Sprint(from), "@step", fmt.Sprint(step),
				"@tenant", fmt.Sprint(tenant.N), "@endpoint", fmt.Sprint(endpoint.N), "@n", fmt.Sprint(opsPerDay)).Replace(sql)
			if _, err := db.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Some 100,000 attempts, of which ten days are over: they go while deliveries flow, and none of those is lost or waits for more than the
// others. What waits since then is still there.
func TestOpsRetentionWhileDeliveriesFlow(t *testing.T) {
	t.Parallel()
	rec := receive(t, always(200))
	p := startAs(t, "api,dispatcher", nil)
	t.Cleanup(p.stop)
	tenant := p.tenant()
	endpoint := p.endpoint(tenant, rec.url("/"), nil).text("id")
	db, err := pg.Open(t.Context(), pgtest.URL(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	ten, terr := id.Tenant.Parse(p.get("/v1/tenants/" + tenant).text("id"))
	ep, eerr := id.Endpoint.Parse(endpoint)
	if terr != nil || eerr != nil {
		t.Fatal(terr, eerr)
	}
	history(t, db, ten, ep)
	scheduler := startAs(t, "scheduler", nil)
	t.Cleanup(scheduler.stop)
	sent := 0
	send := func() {
		for range 20 {
			p.send(tenant, "order.paid", map[string]any{"n": sent})
			sent++
		}
	}
	// Deliveries go on all the while.
	for dropped := 0; dropped < 3*opsOver; dropped = strings.Count(scheduler.logged(), "retention.dropped") {
		send()
		if sent > 20_000 {
			t.Fatalf("%d partitions are dropped\n%s", dropped, scheduler.logged())
		}
	}
	send()
	eventually(t, func() string {
		if n := rec.count(); n != sent {
			return fmt.Sprintf("%d of %d have arrived", n, sent)
		}
		return ""
	})
	cutoff := id.Floor(time.Now().UTC().Add(-30 * 24 * time.Hour).Truncate(24 * time.Hour))
	var attempts, finished, events, waiting, orphans int
	err = db.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM attempts WHERE id < $1), (SELECT count(*) FROM deliveries_finished WHERE id < $1),
		(SELECT count(*) FROM events WHERE id < $1), (SELECT count(*) FROM deliveries WHERE state = 'scheduled'),
		(SELECT count(*) FROM deliveries d WHERE NOT EXISTS (SELECT FROM events e WHERE e.shard = d.shard AND e.id = d.event_id))`,
		cutoff).Scan(&attempts, &finished, &events, &waiting, &orphans)
	if err != nil {
		t.Fatal(err)
	}
	if attempts != 0 || finished != 0 || events != opsOver || waiting != opsDays-1 || orphans != 0 {
		t.Errorf("of what is over %d attempts, %d deliveries and %d events are left; %d wait, %d of them without their event",
			attempts, finished, events, waiting, orphans)
	}
	if code, text := output(t, settings{"DATABASE_URL": pgtest.URL(t)}, "retention", "--dry-run"); code != 0 || strings.Contains(text, " drop ") {
		t.Errorf("exit %d, and there is still to drop\n%s", code, text)
	}
}

// The scheduler is killed without a word: within a minute the other one does all of its jobs.
func TestOpsRetentionAnotherSchedulerTakesOver(t *testing.T) {
	t.Parallel()
	p := startAs(t, "api,scheduler", nil)
	db, err := pg.Open(t.Context(), pgtest.URL(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	owners := func() (jobs, owners int, one int64) {
		err := db.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT owner), coalesce(min(owner), 0) FROM job_leases WHERE leased_until > now()`).
			Scan(&jobs, &owners, &one)
		if err != nil {
			t.Fatal(err)
		}
		return jobs, owners, one
	}
	var all int
	var first int64
	eventually(t, func() string {
		jobs, n, owner := owners()
		if n != 1 || jobs < 10 {
			return fmt.Sprintf("%d processes have %d jobs", n, jobs)
		}
		all, first = jobs, owner
		return ""
	})
	other := startAs(t, "scheduler", nil)
	t.Cleanup(other.stop)
	p.kill()
	killed := time.Now()
	within(t, time.Minute, func() string {
		jobs, n, owner := owners()
		if n != 1 || owner == first || jobs != all {
			return fmt.Sprintf("%v after the kill %d processes have %d jobs of %d", time.Since(killed), n, jobs, all)
		}
		return ""
	})
}
