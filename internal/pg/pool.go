// Package pg is how Postrider talks to PostgreSQL: the pool, transactions that are tried again when PostgreSQL asks for
// it, what its errors mean to a caller, how searches are bound, the database's clock, and the register of processes, which is the one
// table that it knows.
package pg

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Schema is where Postrider's tables live unless the URL's search_path says otherwise.
const Schema = "postrider"

// ParseURL reads a database URL (or keyword=value string; libpq's forms, several hosts included) and fills in what
// every connection of ours has. The error names no password.
func ParseURL(url string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database URL: %w", err)
	}
	settle(cfg)
	return cfg, nil
}

func settle(cfg *pgx.ConnConfig) {
	set := func(key, value string) {
		if _, given := cfg.RuntimeParams[key]; !given {
			cfg.RuntimeParams[key] = value
		}
	}
	set("search_path", Schema)
	set("application_name", "postrider")
	set("timezone", "UTC")
	// Compiling a statement takes longer than any of ours runs, and the planner's guess at its cost is what decides.
	set("jit", "off")
	// Ours lock first and look then, which with an older snapshot would be to look at the past: they are not for another level,
	// which a database or a role may have by default.
	set("default_transaction_isolation", "read committed")
	// A transaction that nobody goes on with holds back the clean-up of every table: end it.
	set("idle_in_transaction_session_timeout", "30s")
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 5 * time.Second
	}
}

// Open makes a pool of at most maxConns connections and proves that it can connect.
func Open(ctx context.Context, url string, maxConns int) (*pgxpool.Pool, error) {
	return open(ctx, url, maxConns, nil, nil)
}

// OpenTraced is Open with a tracer that hears of the pool's statements; nil: nobody does.
func OpenTraced(ctx context.Context, url string, maxConns int, tracer pgx.QueryTracer) (*pgxpool.Pool, error) {
	return open(ctx, url, maxConns, nil, tracer)
}

// OpenQueue makes a pool for the statements of the queue. Its commits do not wait for the disk, which is right for a claim: one
// that is lost with the server leaves its delivery as it was before, due, to be sent again; nobody was promised anything by
// it. What has to last asks for that (SyncCommit), and takes with it all that was committed before. So the claims that a crash
// loses are of deliveries in flight, whose requests are on their way: those go out twice, and no others.
//
// A statement is planned once on each connection, perhaps while the table that will have a million rows is empty. So the
// planner is left one way, by the indexes, and no other that looks cheaper then: no reading of whole tables, no sorting of
// what an index has in order, no joins but by look-up. Planning anew each time would cost more than the statements do.
func OpenQueue(ctx context.Context, url string, maxConns int) (*pgxpool.Pool, error) {
	params := maps.Clone(byIndex)
	params["synchronous_commit"] = "off"
	return open(ctx, url, maxConns, params, nil)
}

// byIndex leaves the planner no way but the indexes, once for all times that a statement is run. What it forbids it counts as
// dear, if there is no other way, and what is dear PostgreSQL would compile: for a second, each time.
var byIndex = map[string]string{
	"jit":             "off",
	"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_bitmapscan": "off", "enable_sort": "off",
	"enable_hashjoin": "off", "enable_mergejoin": "off",
}

// PlanByIndex queues what has the statements of a transaction planned as those of OpenQueue are.
func PlanByIndex(b *pgx.Batch) { b.Queue(planByIndexSQL) }

var planByIndexSQL = func() string {
	var set []string
	for _, name := range slices.Sorted(maps.Keys(byIndex)) {
		set = append(set, fmt.Sprintf("set_config('%s', '%s', true)", name, byIndex[name]))
	}
	return "SELECT " + strings.Join(set, ", ")
}()

// SyncCommit queues what makes the commit of a transaction on a pool of OpenQueue wait for the disk.
func SyncCommit(b *pgx.Batch) { b.Queue(`SELECT set_config('synchronous_commit', 'on', true)`) }

func open(ctx context.Context, url string, maxConns int, params map[string]string, tracer pgx.QueryTracer) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database URL: %w", err)
	}
	settle(cfg.ConnConfig)
	maps.Copy(cfg.ConnConfig.RuntimeParams, params)
	return openConfig(ctx, cfg, maxConns, tracer)
}

func openConfig(ctx context.Context, cfg *pgxpool.Config, maxConns int, tracer pgx.QueryTracer) (*pgxpool.Pool, error) {
	cfg.MaxConns = int32(min(maxConns, 1<<15)) //nolint:gosec // bounded just here
	g := guard(cfg)
	g.heed(cfg)
	if tracer != nil {
		cfg.ConnConfig.Tracer = multitracer.New(cfg.ConnConfig.Tracer, tracer)
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the database pool: %w", err)
	}
	g.pool.Store(pool)
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return pool, nil
}
