// Package pg is how Postrider talks to PostgreSQL: the pool, transactions that are tried again when PostgreSQL asks for
// it, what its errors mean to a caller, how searches are bound, the database's clock, and the register of processes, which is the one
// table that it knows.
package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
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
	// A transaction that nobody goes on with holds back the clean-up of every table: end it.
	set("idle_in_transaction_session_timeout", "30s")
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 5 * time.Second
	}
}

// Open makes a pool of at most maxConns connections and proves that it can connect.
func Open(ctx context.Context, url string, maxConns int) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database URL: %w", err)
	}
	settle(cfg.ConnConfig)
	cfg.MaxConns = int32(min(maxConns, 1<<15)) //nolint:gosec // bounded just here
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the database pool: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return pool, nil
}
