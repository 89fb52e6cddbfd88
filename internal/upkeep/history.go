package upkeep

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// Keep is how long history is kept.
type Keep struct {
	Events   time.Duration // with their payloads
	Attempts time.Duration
}

// of is for how long a table's rows are kept. A delivery is what both hang on, and stays for as long as the longer-lived of them.
func (k Keep) of(table string) time.Duration {
	switch table {
	case tableEvents:
		return k.Events
	case tableAttempts:
		return k.Attempts
	}
	return max(k.Events, k.Attempts)
}

const (
	tableEvents   = "events"
	tableFinished = "deliveries_finished"
	tableAttempts = "attempts"
)

// part is a partition of a table of history as the catalogue has it. The default one has no bounds.
type part struct {
	Table     string
	Name      string
	Bound     string
	Rows      int64 // as it was counted last: an estimate
	Bytes     int64
	Blocks    int64
	from, to  int64 // numbers of ids
	isDefault bool
}

func (p part) quoted() string { return pgx.Identifier{p.Name}.Sanitize() }

// day is the first day that it holds.
func (p part) day() time.Time { return id.TimeOf(p.from).UTC() }

const partsSQL = `
SELECT p.relname AS "table", c.relname AS name, pg_get_expr(c.relpartbound, c.oid) AS bound, greatest(c.reltuples, 0)::bigint AS rows,
       coalesce(pg_total_relation_size(c.oid), 0) AS bytes,
       coalesce(pg_relation_size(c.oid), 0) / current_setting('block_size')::bigint AS blocks
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
 WHERE p.oid IN (to_regclass('attempts'), to_regclass('deliveries_finished'), to_regclass('events'))`

var boundsOf = regexp.MustCompile(`^FOR VALUES FROM \('(\d+)'\) TO \('(\d+)'\)$`)

// readParts gives all partitions of history, in the order in which they are to go: the oldest first, and of a day its attempts, then
// its deliveries, then the events that those are of.
func readParts(ctx context.Context, db pg.Querier) ([]part, error) {
	rows, err := db.Query(ctx, partsSQL)
	var found []part
	if err == nil {
		found, err = pgx.CollectRows(rows, pgx.RowToStructByNameLax[part])
	}
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("list partitions: %w", err))
	}
	for i := range found {
		p := &found[i]
		m := boundsOf.FindStringSubmatch(p.Bound)
		if m == nil {
			p.isDefault = true
			continue
		}
		var ferr, terr error
		p.from, ferr = strconv.ParseInt(m[1], 10, 64)
		p.to, terr = strconv.ParseInt(m[2], 10, 64)
		if ferr != nil || terr != nil {
			return nil, fmt.Errorf("the bounds of %s cannot be read: %s", p.Name, p.Bound)
		}
	}
	order := []string{tableAttempts, tableFinished, tableEvents}
	slices.SortFunc(found, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(slices.Index(order, a.Table), slices.Index(order, b.Table)))
	})
	return found, nil
}

// own is a tenant's own time.
type own struct {
	Tenant int64
	Keep
}

// Index: none; tenants are few beside what they keep, and this is once a run.
const ownSQL = `
SELECT id AS tenant, coalesce(keep_events_ms, 0) AS events, coalesce(keep_attempts_ms, 0) AS attempts FROM tenants
 WHERE keep_events_ms IS NOT NULL OR keep_attempts_ms IS NOT NULL ORDER BY id`

func readOwn(ctx context.Context, db pg.Querier, usual Keep) ([]own, error) {
	rows, err := db.Query(ctx, ownSQL)
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read tenants' retention: %w", err))
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (own, error) {
		var o own
		var events, attempts int64
		err := row.Scan(&o.Tenant, &events, &attempts)
		o.Keep = usual
		if events > 0 {
			o.Events = time.Duration(events) * time.Millisecond
		}
		if attempts > 0 {
			o.Attempts = time.Duration(attempts) * time.Millisecond
		}
		return o, err //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read tenants' retention: %w", err))
	}
	return all, nil
}

// verdict is what is to become of a partition.
type verdict struct {
	part
	over    bool    // for all tenants without a time of their own
	tenants []int64 // over: those whose rows stay all the same; else: those whose rows go
}

// judge says it for a day. now is the database's time; busy are tenants of which a replay is under way, whose events stay.
func judge(p part, usual Keep, owns []own, busy []int64, now time.Time) verdict {
	isOver := func(k Keep) bool { return p.to <= id.Floor(now.Add(-k.of(p.Table))) }
	v := verdict{part: p, over: isOver(usual), tenants: []int64{}}
	for _, o := range owns {
		if isOver(o.Keep) != v.over && (v.over || !slices.Contains(busy, o.Tenant)) {
			v.tenants = append(v.tenants, o.Tenant)
		}
	}
	if v.over {
		v.tenants = append(v.tenants, busy...)
	}
	slices.Sort(v.tenants)
	v.tenants = slices.Compact(v.tenants)
	return v
}

// done is what was done to a partition when it was looked at last.
type done struct {
	Name    string
	IsOver  bool
	Tenants []int64
	Needed  int64
}

func readDone(ctx context.Context, db pg.Querier) (map[string]done, error) {
	rows, err := db.Query(ctx, `SELECT name, is_over, tenants, needed FROM history_days`)
	var all []done
	if err == nil {
		all, err = pgx.CollectRows(rows, pgx.RowToStructByName[done])
	}
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read what was done to partitions: %w", err))
	}
	byName := map[string]done{}
	for _, d := range all {
		byName[d.Name] = d
	}
	return byName, nil
}

const (
	noteDoneSQL = `
INSERT INTO history_days (name, is_over, tenants, needed, looked_at) VALUES (@name, @over, @tenants, @needed, @now)
ON CONFLICT (name) DO UPDATE SET is_over = excluded.is_over, tenants = excluded.tenants, needed = excluded.needed,
    looked_at = excluded.looked_at`
	forgetDoneSQL = `DELETE FROM history_days WHERE name = $1`
)

func noteDone(ctx context.Context, db pg.Querier, v verdict, needed int64, now time.Time) error {
	_, err := db.Exec(ctx, noteDoneSQL, pgx.StrictNamedArgs{
		"name": v.Name, "over": v.over, "tenants": v.tenants, "needed": needed, "now": now,
	})
	if err != nil {
		return pg.Fault(fmt.Errorf("note what was done to %s: %w", v.Name, err))
	}
	return nil
}

// Index jobs_unfinished: a replay walks over its tenant's events, however old, and what it is still to reach stays.
const replayingSQL = `
SELECT DISTINCT tenant_id FROM jobs WHERE kind = 'replay' AND state IN ('queued', 'running') AND tenant_id IS NOT NULL`

func readReplaying(ctx context.Context, db pg.Querier) ([]int64, error) {
	rows, err := db.Query(ctx, replayingSQL)
	var all []int64
	if err == nil {
		all, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	}
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("look for replays: %w", err))
	}
	return all, nil
}
