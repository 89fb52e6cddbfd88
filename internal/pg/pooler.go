package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/fault"
)

// OpenPooled is Open through a pooler that lends a server's connection for a transaction and no longer, as PgBouncer does in
// transaction mode. Nothing may lie in the session then: what Open gives each connection at its start, the role has to bring
// (checkRole), and no statement stays prepared, so each is parsed and planned whenever it runs. A pooler that keeps prepared
// statements itself (PgBouncer from 1.21 on, with max_prepared_statements) spares that when the URL says
// default_query_exec_mode=cache_statement.
//
// tracer, unless it is nil, hears of the statements. It serves as the queue's pool too, where statements say each time what OpenQueue has them be (AsQueue).
func OpenPooled(ctx context.Context, url string, maxConns int, tracer pgx.QueryTracer) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database URL: %w", err)
	}
	settle(cfg.ConnConfig)
	schema := cfg.ConnConfig.RuntimeParams["search_path"]
	for name := range cfg.ConnConfig.RuntimeParams {
		if !slices.Contains(tracked, strings.ToLower(name)) {
			delete(cfg.ConnConfig.RuntimeParams, name)
		}
	}
	if !strings.Contains(url, "default_query_exec_mode") {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	pool, err := openConfig(ctx, cfg, maxConns, tracer)
	if err != nil {
		return nil, err
	}
	if err := checkRole(ctx, pool, schema); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// tracked are the parameters that PgBouncer, of whatever version, keeps for each client and gives the server with the
// connection. It turns a client away that asks for others.
var tracked = []string{"application_name", "client_encoding", "datestyle", "timezone", "standard_conforming_strings"}

const roleSQL = `SELECT current_user::text, current_database()::text, current_setting('search_path'), current_setting('default_transaction_isolation')`

// checkRole asks whether connections have what everything else relies on. The rest of what settle sets is for when something
// goes wrong; docs/scaling.md has it all.
func checkRole(ctx context.Context, db Querier, schema string) error {
	var role, database, path, isolation string
	if err := db.QueryRow(ctx, roleSQL).Scan(&role, &database, &path, &isolation); err != nil {
		return Fault(fmt.Errorf("read the role's settings: %w", err))
	}
	first, _, _ := strings.Cut(path, ",")
	first = strings.Trim(strings.TrimSpace(first), `"`)
	if first == "$user" {
		first = role
	}
	alter := fmt.Sprintf("ALTER ROLE %s IN DATABASE %s SET ", pgx.Identifier{role}.Sanitize(), pgx.Identifier{database}.Sanitize())
	const then = "and have the pooler connect anew (RECONNECT on its console)"
	switch {
	case first != schema:
		return fault.New(fault.Invalid, "through a pooler the role has to bring its search_path, which begins with %s and not with %s: run `%ssearch_path = %s` %s",
			first, schema, alter, pgx.Identifier{schema}.Sanitize(), then)
	case isolation != "read committed":
		return fault.New(fault.Invalid, "through a pooler the role has to bring its default_transaction_isolation, which is %s: run `%sdefault_transaction_isolation = 'read committed'` %s",
			isolation, alter, then)
	}
	return nil
}

// AsQueue queues what has the rest of the batch, or of the transaction, go as on a pool of OpenQueue.
func AsQueue(b *pgx.Batch) { b.Queue(asQueueSQL) }

var asQueueSQL = planByIndexSQL + `, set_config('synchronous_commit', 'off', true)`

// PoolerLost reports whether a pooler says that it has lost the server while that worked for us: what that had done, it does
// not know. It says so as PostgreSQL says that a client breaks the protocol, which ends the session too.
func PoolerLost(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Severity == "FATAL" && strings.HasPrefix(pgErr.Code, "08")
}
