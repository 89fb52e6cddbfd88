package migrations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// Class is where the rows of a table lie on a Citus cluster.
type Class string

// The classes.
const (
	Distributed Class = "distributed" // by the bucket: on the worker that has it, with all else of the tenant
	Reference   Class = "reference"   // a copy on every node: what is read with tenants' data, or points to it, and is written rarely
	Local       Class = "local"       // on the coordinator alone, which other nodes ask
)

// classes says of each table where it lies. One that is not here fails a test, as one that cannot lie where it is said to.
//
// Tenants are on every node: their uid is unique over all buckets, and keys and sessions, which are looked up before a tenant is
// known, point to them.
var classes = map[string]Class{
	"tenants": Reference, "event_types": Reference, "api_keys": Reference, "user_agents": Reference, "intake_settings": Reference,
	"seal_keys": Reference,

	"endpoints": Distributed, "endpoint_versions": Distributed, "endpoint_secrets": Distributed, "endpoint_pace": Distributed,
	"events": Distributed, "deliveries": Distributed, "deliveries_finished": Distributed, "attempts": Distributed,
	"endpoint_traffic": Distributed, "idempotency_keys": Distributed, "alerts": Distributed, "alert_notices": Distributed,
	"jobs": Distributed, "job_chunks": Distributed, "schedules": Distributed, "schedule_occurrences": Distributed, "audit_log": Distributed,

	"events_unrouted": Local, "traffic": Local, "sessions": Local, "portal_links": Local, "nodes": Local, "schema_compatibility": Local,
	"service_alerts": Local, "alert_digest": Local, "alert_pace": Local, "canary": Local, "history_days": Local, "job_leases": Local,
	"goose_db_version": Local,
}

// first is the distributed table that the others lie beside.
const first = "endpoints"

// step gives the statement that puts a table where it belongs.
func step(table string) string {
	switch classes[table] {
	case Reference:
		return fmt.Sprintf("SELECT create_reference_table('%s')", table)
	case Distributed:
		beside := first
		if table == first {
			beside = "none"
		}
		return fmt.Sprintf("SELECT create_distributed_table('%s', 'shard', colocate_with => '%s')", table, beside)
	case Local:
		return fmt.Sprintf("SELECT citus_add_local_table_to_metadata('%s')", table)
	}
	return ""
}

// plan gives the statements for the tables that are there and not in their place yet: those that others point to come first.
func plan(tables []Table) ([]string, error) {
	var unknown []string
	byName := map[string]Table{}
	for _, t := range tables {
		if byName[t.Name] = t; classes[t.Name] == "" {
			unknown = append(unknown, t.Name)
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("distribute: nobody has said where the rows of %s belong", strings.Join(unknown, ", "))
	}
	order := []Class{Reference, Distributed, Local}
	slices.SortFunc(tables, func(a, b Table) int {
		if c := slices.Index(order, classes[a.Name]) - slices.Index(order, classes[b.Name]); c != 0 {
			return c
		}
		if a.Name == first || b.Name == first {
			return map[bool]int{true: -1, false: 1}[a.Name == first]
		}
		return strings.Compare(a.Name, b.Name)
	})
	var steps []string
	placed := map[string]bool{}
	var place func(Table)
	place = func(t Table) {
		if placed[t.Name] {
			return
		}
		placed[t.Name] = true
		for _, to := range t.PointsTo {
			place(byName[to])
		}
		if !t.Placed {
			steps = append(steps, step(t.Name))
		}
	}
	for _, t := range tables {
		place(t)
	}
	return steps, nil
}

// Table is one of ours in a database.
type Table struct {
	Name     string
	PointsTo []string // tables, by foreign keys
	Placed   bool     // Citus knows it
}

// ErrNoCitus is for Distribute on a database without it.
var ErrNoCitus = errors.New("the extension citus is not installed in this database: `migrate distribute` is for the coordinator of a Citus cluster, and nothing else needs it")

// errServing keeps rows from being moved under who works on them.
var errServing = errors.New("processes of Postrider are running on this database: stop them, so that nobody waits for tables that are being moved")

const (
	citusSQL  = `SELECT to_regproc('create_distributed_table') IS NOT NULL`
	inUseSQL  = `SELECT EXISTS (SELECT FROM nodes WHERE owner IS NOT NULL AND leased_until > clock_timestamp())`
	tablesSQL = `
SELECT c.relname::text AS name, EXISTS (SELECT FROM pg_dist_partition p WHERE p.logicalrelid = c.oid) AS placed,
       ARRAY (SELECT DISTINCT t.relname::text FROM pg_constraint k JOIN pg_class t ON t.oid = k.confrelid
               WHERE k.conrelid = c.oid AND k.contype = 'f' AND k.confrelid <> c.oid ORDER BY 1) AS points_to
  FROM pg_class c
 WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1`
)

// Distribute puts each table of the newest schema where it belongs on a Citus cluster, whose coordinator the URL leads to, and gives
// the statements for it. What is in its place stays there, so it may be run again, as after a migration that made a table. dry has it run
// none.
//
// A partition goes where its parent is, also one that is made later.
func Distribute(ctx context.Context, url string, dry bool) (_ []string, err error) {
	cfg, err := pg.ParseURL(url)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("connect to the database: %w", err))
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	steps, err := distribution(ctx, conn, dry)
	if err != nil || dry {
		return steps, err
	}
	for _, sql := range steps { // each is a transaction of Citus's own
		if _, err := conn.Exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("distribute: %s: %w", sql, err)
		}
	}
	return steps, nil
}

func distribution(ctx context.Context, db pg.Querier, dry bool) ([]string, error) {
	var there, serving bool
	if err := db.QueryRow(ctx, citusSQL).Scan(&there); err != nil {
		return nil, fmt.Errorf("look for citus: %w", err)
	}
	if !there {
		return nil, ErrNoCitus
	}
	fit, err := Look(ctx, db)
	if err != nil {
		return nil, err
	}
	if fit.Has != fit.Knows {
		return nil, fmt.Errorf("distribute: the schema is not this binary's: run `postrider migrate up` first")
	}
	if err := db.QueryRow(ctx, inUseSQL).Scan(&serving); err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	if serving && !dry {
		return nil, errServing
	}
	rows, err := db.Query(ctx, tablesSQL)
	if err != nil {
		return nil, fmt.Errorf("read the tables: %w", err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByName[Table])
	if err != nil {
		return nil, fmt.Errorf("read the tables: %w", err)
	}
	return plan(tables)
}
