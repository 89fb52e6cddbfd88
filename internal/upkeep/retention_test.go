package upkeep

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// past is a house with history: days of events that are done, each with a delivery and an attempt.
type past struct {
	*house
	*Retention
	ep subscriptions.Endpoint
	n  int64
}

func newPast(t *testing.T) *past {
	t.Helper()
	h := newHouse(t)
	p := &past{house: h, ep: h.endpoint(), Retention: NewRetention(h.DB, h.Now, zerolog.New(h.log), Keep{Events: 30 * day, Attempts: 30 * day})}
	p.longestRest = 0
	var sql strings.Builder
	for back := 46; back >= 0; back-- {
		for _, table := range partitioned {
			one := partition{table, h.at.Truncate(day).Add(-time.Duration(back) * day)}
			from, to := one.bounds()
			fmt.Fprintf(&sql, "CREATE TABLE %s PARTITION OF %s FOR VALUES FROM (%d) TO (%d);", one.name(), table, from, to)
		}
	}
	exec(t, h.DB, sql.String())
	return p
}

// made is one event with its delivery and its attempt, made so many days ago.
func (p *past) made(e subscriptions.Endpoint, daysAgo int, state string) (event, delivery id.ID) {
	p.T.Helper()
	p.n++
	base := id.Floor(p.at.Add(-time.Duration(daysAgo)*day)) + p.n*8
	event, delivery = id.ID{Shard: e.ID.Shard, N: base}, id.ID{Shard: e.ID.Shard, N: base + 1}
	exec(p.T, p.DB, `INSERT INTO events (shard, id, tenant_id, type, content_type, payload, delivery_ids)
		VALUES ($1, $2, $3, 'a', 'text/plain', $4, ARRAY[$5::bigint])`, event.Shard, event.N, e.TenantID.N, fmt.Appendf(nil, "payload of %d", base), delivery.N)
	if state == "pending" {
		exec(p.T, p.DB, `INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, next_retry_at, attempts, failures, lane)
			VALUES ($1, $2, $3, $4, $5, 'pending', $6, 1, 1, 1)`, delivery.Shard, delivery.N, e.TenantID.N, event.N, e.ID.N, p.at)
	} else {
		exec(p.T, p.DB, `INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts, last_outcome, reason, finished_at)
			VALUES ($1, $2, $3, $4, $5, $6::text::delivery_state, 1, CASE WHEN $6::text = 'succeeded' THEN 'succeeded'::outcome ELSE 'timeout' END,
			CASE WHEN $6::text <> 'succeeded' THEN 'exhausted' END, $7)`,
			delivery.Shard, delivery.N, e.TenantID.N, event.N, e.ID.N, state, event.Time())
	}
	exec(p.T, p.DB, `INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, outcome)
		VALUES ($1, $2, $3, $4, 1, 1, 1, 'timeout')`, event.Shard, base+2, delivery.N, e.ID.N)
	return event, delivery
}

// rows says how many rows a day has, as `attempts deliveries events`.
func (p *past) rows(daysAgo int) string {
	p.T.Helper()
	from := p.at.UTC().Truncate(day).Add(-time.Duration(daysAgo) * day)
	var out []string
	for _, table := range []string{tableAttempts, tableFinished, tableEvents} {
		var n int
		err := p.DB.QueryRow(p.T.Context(), `SELECT count(*) FROM `+table+` WHERE id >= $1 AND id < $2`, id.Floor(from), id.Floor(from.Add(day))).Scan(&n)
		if err != nil {
			p.T.Fatal(err)
		}
		out = append(out, fmt.Sprint(n))
	}
	return strings.Join(out, " ")
}

func (p *past) hasPart(table string, daysAgo int) bool {
	p.T.Helper()
	return slices.Contains(list(p.T, p.DB, table), table+"_"+p.at.UTC().Add(-time.Duration(daysAgo)*day).Format("20060102"))
}

func (p *past) runs(want int64) {
	p.T.Helper()
	n, err := p.Run(p.T.Context())
	if err != nil || want >= 0 && n != want {
		p.T.Errorf("it deals with %d partitions (%v), want %d", n, err, want)
	}
}

func (p *past) wantRows(daysAgo int, want string) {
	p.T.Helper()
	if got := p.rows(daysAgo); got != want {
		p.T.Errorf("%d days ago: %s, want %s", daysAgo, got, want)
	}
}

func (p *past) ofTenant(events, attempts time.Duration) subscriptions.Endpoint {
	p.T.Helper()
	t, err := p.Store.CreateTenant(p.T.Context(), subscriptions.NewTenant{Name: "another"})
	if err != nil {
		p.T.Fatal(err)
	}
	exec(p.T, p.DB, `UPDATE tenants SET keep_events_ms = nullif($2::bigint, 0), keep_attempts_ms = nullif($3::bigint, 0) WHERE id = $1`,
		t.ID.N, events.Milliseconds(), attempts.Milliseconds())
	e, _, err := p.Store.CreateEndpoint(p.T.Context(), t, subscriptions.NewEndpoint{URL: "https://example.com/other"})
	if err != nil {
		p.T.Fatal(err)
	}
	return e
}

func TestDaysThatAreOverAreDroppedAndNoOthers(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	for _, ago := range []int{40, 31, 30, 29, 0} {
		p.made(p.ep, ago, "succeeded")
	}
	p.runs(3 * 16) // 46 to 31 days ago
	for ago, want := range map[int]string{40: "0 0 0", 31: "0 0 0", 30: "1 1 1", 29: "1 1 1", 0: "1 1 1"} {
		p.wantRows(ago, want)
		if has := p.hasPart(tableEvents, ago); has != (want == "1 1 1") {
			t.Errorf("%d days ago: the partition is there: %t", ago, has)
		}
	}
	p.runs(0)
	p.at = p.at.Add(day)
	p.runs(3)
	p.wantRows(30, "1 1 1")
}

// Each table by its own time; a delivery, which both hang on, by the longer.
func TestEventsAndAttemptsHaveTimesOfTheirOwn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keep Keep
		want string
	}{{Keep{Events: 10 * day, Attempts: 30 * day}, "1 1 0"}, {Keep{Events: 30 * day, Attempts: 10 * day}, "0 1 1"}} {
		t.Run(c.want, func(t *testing.T) {
			t.Parallel()
			p := newPast(t)
			p.made(p.ep, 20, "failed")
			p.keep = c.keep
			p.runs(-1)
			p.wantRows(20, c.want)
		})
	}
}

func TestWhatIsUnfinishedStays(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	event, delivery := p.made(p.ep, 40, "pending")
	p.made(p.ep, 40, "succeeded")
	// An event of two deliveries, one of which is done: its state is a part of the event's.
	half, done := p.made(p.ep, 39, "failed")
	exec(t, p.DB, `INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, next_retry_at, lane)
		VALUES ($1, $2, $3, $4, $5, 'pending', $6, 1)`, half.Shard, half.N+5, p.tenant.ID.N, half.N, p.ep.ID.N, p.at)
	exec(t, p.DB, `UPDATE events SET delivery_ids = delivery_ids || $1::bigint WHERE id = $2`, half.N+5, half.N)
	// A replay: a delivery that is much younger than its event.
	old, _ := p.made(p.ep, 38, "succeeded")
	exec(t, p.DB, `INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, next_retry_at, lane)
		VALUES ($1, $2, $3, $4, $5, 'pending', $6, 1)`, old.Shard, p.ids.Next(), p.tenant.ID.N, old.N, p.ep.ID.N, p.at)
	// One whose fan-out is to come, and one that a job is still to bring back.
	unrouted, _ := p.made(p.ep, 37, "succeeded")
	exec(t, p.DB, `INSERT INTO events_unrouted (n, shard, event_id) VALUES (1, $1, $2)`, unrouted.Shard, unrouted.N)
	_, meant := p.made(p.ep, 36, "failed")
	exec(t, p.DB, `INSERT INTO jobs (shard, id, kind, spec, created_by, matched, gathered, next_at) VALUES (0, 1, 'retry', '{}', 'me', 1, true, now())`)
	exec(t, p.DB, `INSERT INTO job_chunks (shard, job_id, n, shards, ids) VALUES (0, 1, 1, ARRAY[$1::smallint], ARRAY[$2::bigint])`, meant.Shard, meant.N)
	// A replay is under way, and how far it will come nobody knows yet.
	replayed := p.ofTenant(0, 0)
	p.made(replayed, 35, "succeeded")
	exec(t, p.DB, `INSERT INTO jobs (shard, id, tenant_id, kind, spec, created_by, matched, gathered, next_at)
		VALUES ($1, 2, $2, 'replay', '{}', 'me', 1, true, now())`, replayed.ID.Shard, replayed.TenantID.N)
	p.runs(-1)
	want := map[int]string{40: "1 0 1", 39: "0 1 1", 38: "0 1 1", 37: "0 0 1", 36: "0 1 1", 35: "1 1 1"}
	for ago, rows := range want {
		p.wantRows(ago, rows)
	}
	var payload string
	err := p.DB.QueryRow(t.Context(), `SELECT convert_from(payload, 'UTF8') FROM events WHERE shard = $1 AND id = $2`, event.Shard, event.N).Scan(&payload)
	if err != nil || payload != fmt.Sprintf("payload of %d", event.N) {
		t.Errorf("the payload is %q, %v", payload, err)
	}
	p.runs(0)
	if _, err := p.Desk.Retry(t.Context(), done); err != nil { // what stays can be acted on
		t.Error(err)
	}
	if got := odd(t, p); len(got) > 0 {
		t.Errorf("partitions differ from their table: %v", got)
	}
	// All is done: it goes, and with it its days.
	for _, table := range []string{"deliveries", "events_unrouted", "job_chunks", "jobs"} {
		exec(t, p.DB, `DELETE FROM `+table)
	}
	p.runs(-1)
	for ago := range want {
		p.wantRows(ago, "0 0 0")
		for _, table := range partitioned {
			if p.hasPart(table, ago) {
				t.Errorf("%s of %d days ago is still there", table, ago)
			}
		}
	}
	_ = delivery
}

// odd gives partitions with other indexes or checks than their table has.
func odd(t *testing.T, p *past) []string {
	t.Helper()
	rows, err := p.DB.Query(t.Context(), `SELECT c.relname FROM pg_inherits i
		JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
		WHERE p.relkind = 'p' AND ((SELECT count(*) FROM pg_index x WHERE x.indrelid = c.oid) <> (SELECT count(*) FROM pg_index x WHERE x.indrelid = p.oid)
		OR (SELECT count(*) FROM pg_constraint x WHERE x.conrelid = c.oid AND x.contype = 'c')
		    <> (SELECT count(*) FROM pg_constraint x WHERE x.conrelid = p.oid AND x.contype = 'c'))`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestATenantKeepsMoreOrLessThanOthers(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	more, less, split := p.ofTenant(400*day, 400*day), p.ofTenant(2*day, 2*day), p.ofTenant(0, 2*day)
	for _, ago := range []int{40, 20, 3, 2, 1} {
		for _, e := range []subscriptions.Endpoint{p.ep, more, less, split} {
			for range 3 {
				p.made(e, ago, "succeeded")
			}
		}
	}
	_, waits := p.made(less, 20, "pending")
	p.runs(-1)
	for ago, want := range map[int]string{40: "3 3 3", 20: "7 9 10", 3: "6 9 9", 2: "12 12 12", 1: "12 12 12"} {
		p.wantRows(ago, want)
	}
	if d, err := p.Desk.Get(t.Context(), waits); err != nil || d.State != dispatcher.Pending {
		t.Errorf("what waits is %v, %v", d.State, err)
	}
	p.runs(0)
	if got := odd(t, p); len(got) > 0 {
		t.Errorf("partitions differ from their table: %v", got)
	}
	// The one that kept more no longer does.
	exec(t, p.DB, `UPDATE tenants SET keep_events_ms = NULL, keep_attempts_ms = NULL`)
	p.runs(-1)
	p.wantRows(40, "0 0 0")
	if p.hasPart(tableEvents, 40) {
		t.Error("a day that is over for all is still there")
	}
}

// While a day is put together anew its rows change: what takes its place has them as they are.
func TestWhatChangesMeanwhileIsMadeUpFor(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	more := p.ofTenant(400*day, 400*day)
	_, back := p.made(more, 40, "failed")     // is brought back, and waits
	_, twice := p.made(more, 40, "failed")    // is brought back, and is done again
	_, called := p.made(more, 40, "failed")   // is brought back, and cancelled
	_, waits := p.made(more, 40, "pending")   // is done meanwhile
	event, _ := p.made(more, 40, "succeeded") // gets another delivery by a replay
	p.made(more, 40, "succeeded")
	var v, ve verdict
	o, err := p.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range o.parts {
		if one.from <= event.N && event.N < one.to && !one.isDefault {
			switch one.Table {
			case tableFinished:
				v = judge(one, p.keep, o.owns, nil, p.at)
			case tableEvents:
				ve = judge(one, p.keep, o.owns, nil, p.at)
			}
		}
	}
	at := &rewriting{verdict: v, kept: "kept_deliveries", started: p.at.Add(-time.Minute)}
	ats := &rewriting{verdict: ve, kept: "kept_events", started: p.at.Add(-time.Minute)}
	for _, w := range []*rewriting{at, ats} {
		if err := p.prepare(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		exec(t, p.DB, `INSERT INTO `+w.kept+` SELECT * FROM `+w.quoted())
	}
	for _, d := range []id.ID{back, twice, called} {
		if _, err := p.Desk.Retry(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Desk.Cancel(t.Context(), called, dispatcher.ReasonCancelledByUser); err != nil {
		t.Fatal(err)
	}
	for _, d := range []id.ID{twice, waits} {
		exec(t, p.DB, `WITH d AS (DELETE FROM deliveries WHERE id = $1 RETURNING *), a AS (INSERT INTO attempts (shard, id, delivery_id, endpoint_id,
			webhook_timestamp, endpoint_version, attempt, outcome) SELECT shard, $2, id, endpoint_id, 1, 1, 2, 'succeeded' FROM d)
			INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts, last_outcome, finished_at)
			SELECT shard, id, tenant_id, event_id, endpoint_id, 'succeeded', 2, 'succeeded', $3 FROM d`, d.N, p.ids.Next(), p.at)
	}
	exec(t, p.DB, `UPDATE events SET delivery_ids = delivery_ids || 77::bigint WHERE id = $1`, event.N)
	exec(t, p.DB, `INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, next_retry_at)
		VALUES ($1, $2, $3, $4, $5, 'pending', $6)`, event.Shard, p.ids.Next(), more.TenantID.N, event.N, more.ID.N, p.at)
	read := func(table string) []string {
		rows, err := p.DB.Query(t.Context(), `SELECT t::text FROM `+table+` t WHERE id >= $1 AND id < $2 ORDER BY 1`, v.from, v.to)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	finished, events := read(tableFinished), read(tableEvents)
	for _, w := range []*rewriting{at, ats} {
		if err := p.locked(t.Context(), w.part, swapPatience, func(tx pgx.Tx) error { _, err := p.swap(t.Context(), tx, w, 0); return err }); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(tableFinished); len(got) < 4 || !slices.Equal(got, finished) {
		t.Errorf("deliveries are\n%s\nand were\n%s", strings.Join(got, "\n"), strings.Join(finished, "\n"))
	}
	if got := read(tableEvents); len(got) != 6 || !slices.Equal(got, events) {
		t.Errorf("events are\n%s\nand were\n%s", strings.Join(got, "\n"), strings.Join(events, "\n"))
	}
}

// A delivery that is brought back while its event's day is about to go finds the event, or is refused: it is never without.
func TestADayThatIsNeededByNowIsNotDropped(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	event, delivery := p.made(p.ep, 40, "failed")
	o, err := p.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var v verdict
	for _, one := range o.parts {
		if one.Table == tableEvents && one.from <= event.N && event.N < one.to && !one.isDefault {
			v = judge(one, p.keep, nil, nil, p.at)
		}
	}
	if n, err := p.countNeeded(t.Context(), v); n != 0 || err != nil {
		t.Fatalf("%d are needed, %v", n, err)
	}
	if _, err := p.Desk.Retry(t.Context(), delivery); err != nil {
		t.Fatal(err)
	}
	if err := p.drop(t.Context(), v); err == nil || err.Error() != errNeeded.Error() {
		t.Errorf("dropping says %v", err)
	}
	p.runs(-1)
	p.wantRows(40, "1 0 1")
}

// What no day's partition took is deleted by the row, each at its own time.
func TestTheDefaultPartitionIsCleared(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	more := p.ofTenant(400*day, 400*day)
	p.made(p.ep, 90, "succeeded")
	p.made(more, 90, "succeeded")
	p.made(p.ep, 89, "pending")
	p.runs(-1)
	p.wantRows(90, "1 1 1")
	p.wantRows(89, "1 0 1")
}

// A report reads history for long: deliveries go on meanwhile, retention says once that it waits, and works when the reader is gone.
func TestALongReaderHoldsUpNobody(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.made(p.ep, 40, "succeeded")
	reader, err := p.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Exec(t.Context(), `SELECT count(*) FROM attempts`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := p.Run(t.Context()); done <- err }()
	for !strings.Contains(p.house.log.text(), "retention.waiting") {
		if t.Context().Err() != nil {
			t.Fatal("it never says that it waits")
		}
	}
	for range 20 { // and whoever writes does not stand behind it
		p.made(p.ep, 0, "succeeded")
	}
	p.wantRows(40, "1 1 1")
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	p.wantRows(40, "0 0 0")
	if n := strings.Count(p.house.log.text(), "retention.waiting"); n != 1 {
		t.Errorf("it says %d times that it waits", n)
	}
}

// Plans and prepared statements that others have of history go on over a change of its partitions.
func TestPreparedStatementsSurvive(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	conn, err := p.DB.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	const write = `INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, outcome)
		VALUES (1, $1, 1, 1, 1, 1, 1, 'timeout')`
	const read = `SELECT count(*) FROM events e JOIN unnest($1::bigint[]) x (id) ON e.shard = 1 AND e.id = x.id`
	more := p.ofTenant(400*day, 400*day)
	for ago := 45; ago > 30; ago-- {
		p.made(more, ago, "succeeded")
		p.made(p.ep, ago, "pending")
	}
	use := func() {
		t.Helper()
		for range 8 { // beyond five a plan may be one for all values
			if _, err := conn.Exec(t.Context(), write, p.ids.Next()); err != nil {
				t.Fatal(err)
			}
			var n int
			if err := conn.QueryRow(t.Context(), read, []int64{1, 2}).Scan(&n); err != nil {
				t.Fatal(err)
			}
		}
	}
	use()
	p.runs(-1)
	use()
	exec(t, p.DB, `DELETE FROM deliveries`)
	exec(t, p.DB, `UPDATE tenants SET keep_events_ms = NULL, keep_attempts_ms = NULL`)
	p.runs(-1)
	use()
}

func TestAPlanSaysWhatARunDoesAndChangesNothing(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	more, less := p.ofTenant(400*day, 400*day), p.ofTenant(2*day, 2*day)
	p.made(p.ep, 41, "succeeded")
	p.made(p.ep, 40, "succeeded")
	p.made(p.ep, 40, "pending")
	p.made(more, 40, "succeeded")
	p.made(less, 20, "succeeded")
	p.made(p.ep, 20, "succeeded")
	plan := func() map[string]Prospect {
		all, err := p.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		by := map[string]Prospect{}
		for _, f := range all {
			by[f.Table+" "+f.Day] = f
		}
		return by
	}
	at := func(ago int) string { return p.at.UTC().Add(-time.Duration(ago) * day).Format(time.DateOnly) }
	before := plan()
	for key, want := range map[string]string{
		"events " + at(41): "drop 1 0", "events " + at(40): "rewrite 1 2", "attempts " + at(40): "rewrite 1 2",
		"deliveries_finished " + at(40): "rewrite 1 1", "events " + at(20): "delete 1 1", "events " + at(0): "keep 0 0", "events ": "keep 0 0",
	} {
		f := before[key]
		if got := fmt.Sprint(f.Action, " ", f.Goes, " ", f.Stays); got != want || f.Why == "" {
			t.Errorf("%s: %s (%s), want %s", key, got, f.Why, want)
		}
	}
	p.wantRows(40, "3 2 3")
	p.runs(-1)
	for key, f := range plan() {
		if f.Action != actKeep {
			t.Errorf("after the run %s is still to %s", key, f.Action)
		}
	}
}

// At a terminal: the scheduler lends the job, and has it back afterwards.
func TestACommandRunsRetentionUnderTheLease(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.made(p.ep, 40, "succeeded")
	server := newLeases(p.DB, p.Now)
	if _, _, err := server.renew(t.Context(), []string{retentionJob}); err != nil {
		t.Fatal(err)
	}
	n, err := p.RunNow(t.Context(), func() {
		if _, lost, err := server.renew(t.Context(), []string{retentionJob}); err != nil || len(lost) != 1 {
			t.Errorf("the scheduler lets go of %v, %v", lost, err)
		}
	})
	if n == 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	p.wantRows(40, "0 0 0")
	if taken, _, err := server.renew(t.Context(), []string{retentionJob}); err != nil || len(taken) != 1 {
		t.Errorf("it has %v back, %v", taken, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := p.RunNow(ended, func() {}); err == nil {
		t.Error("it goes on after its end")
	}
}
