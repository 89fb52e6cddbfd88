package upkeep

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
)

// verdictOf is what is to become of a table's partition of 40 days ago, as a run sees it that begins now.
func (p *past) verdictOf(table string, daysAgo int) verdict {
	p.T.Helper()
	o, err := p.look(p.T.Context())
	if err != nil {
		p.T.Fatal(err)
	}
	at := id.Floor(p.at.Add(-time.Duration(daysAgo) * day))
	for _, one := range o.parts {
		if one.Table == table && one.from <= at && at < one.to && !one.isDefault {
			return judge(one, p.keep, o.owns, o.busy, o.now)
		}
	}
	p.T.Fatalf("%s has no partition of %d days ago", table, daysAgo)
	return verdict{}
}

// A run goes through days for hours: what a day has got since the run began is its own, too.
func TestADayGrowsBetweenTheLookAndItsTurn(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	more := p.ofTenant(400*day, 400*day)
	event, _ := p.made(more, 40, "succeeded")
	p.made(p.ep, 40, "succeeded")
	events, finished := p.verdictOf(tableEvents, 40), p.verdictOf(tableFinished, 40)
	// Long before it is the day's turn a replay adds a delivery to the event, which is done since: the event's row lies elsewhere now. And so
	// much is cancelled that waited that the day has more pages than before.
	exec(t, p.DB, `INSERT INTO events (shard, id, tenant_id, type, content_type, payload, delivery_ids)
		SELECT $1, $2::bigint + n, $3, 'a', 'text/plain', decode(repeat('5a', 1700), 'hex'), '{}' FROM generate_series(100, 1499) n`,
		event.Shard, event.N, p.ep.TenantID.N)
	exec(t, p.DB, `UPDATE events SET delivery_ids = delivery_ids || 77::bigint, metadata = to_jsonb(repeat('a', 1000)) WHERE shard = $1 AND id = $2`, event.Shard, event.N)
	exec(t, p.DB, `INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts, reason, finished_at)
		SELECT $1, $2::bigint + n, $3, $4, $5, 'cancelled', 0, 'cancelled_by_user', $6 FROM generate_series(100, 30099) n`,
		event.Shard, event.N, more.TenantID.N, event.N, more.ID.N, p.at)
	p.at = p.at.Add(time.Hour)
	for _, v := range []verdict{finished, events} {
		if err := p.rewrite(t.Context(), v, 0); err != nil {
			t.Fatal(err)
		}
	}
	p.wantRows(40, "2 30001 1")
}

// A bit of a walk takes longer than it may take to renew the leases: they are renewed all the same.
func TestALongBitOfAWalkKeepsTheLeases(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.made(p.ep, 20, "succeeded")
	l := newLeases(p.DB, p.Now)
	names := []string{retentionJob, "gauges"}
	if _, _, err := l.renew(t.Context(), names); err != nil {
		t.Fatal(err)
	}
	led, exit, _ := l.enter(t.Context(), retentionJob)
	defer exit()
	v := p.verdictOf(tableEvents, 20)
	hold, err := p.DB.Begin(t.Context()) // as a slow disk does
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Rollback(context.WithoutCancel(t.Context()))
	if _, err := hold.Exec(t.Context(), `SELECT FROM `+v.quoted()+` FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	walked := make(chan error, 1)
	go func() {
		_, err := p.walk(led, v.part, `DELETE FROM `+v.quoted()+` t WHERE `+pagesSQL, pgx.StrictNamedArgs{})
		walked <- err
	}()
	waits := func() (n int) {
		if err := p.DB.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks l JOIN pg_locks h ON h.locktype = 'transactionid'
			AND h.granted AND h.transactionid = l.transactionid WHERE NOT l.granted AND h.pid = (SELECT $1::integer)`,
			int32(hold.Conn().PgConn().PID())).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for waits() == 0 {
		if t.Context().Err() != nil {
			t.Fatal("it never comes to the row")
		}
	}
	if _, lost, err := l.renew(t.Context(), names); err != nil || len(lost) > 0 {
		t.Errorf("in the middle of a bit the process loses %v, %v", lost, err)
	}
	if err := hold.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-walked; err != nil {
		t.Error(err)
	}
	p.wantRows(20, "1 1 0")
}
