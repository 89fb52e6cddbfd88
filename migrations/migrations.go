// Package migrations holds the database's schema and brings a database to it. Files are NNNN_name.sql in goose's format,
// embedded. Every statement uses unqualified names: the connection's search_path says which schema is meant (`postrider`
// unless the URL names another).
//
// It does not make the partitions of history: internal/upkeep does, since they come with the days.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/postrider/postrider/internal/pg"
)

// FS holds the migrations.
//
//go:embed *.sql
var FS embed.FS

// Status is one migration and whether the database has it.
type Status struct {
	Version int64
	Name    string
	Applied bool
}

// Up brings the database at url to the newest schema. Several processes may call it at once: one of them works, the
// others wait for it and find nothing to do. The version before may serve meanwhile: who waits for a lock has everybody else wait
// behind him, so a migration that does not get one within lockPatience is given up and tried again a little later.
func Up(ctx context.Context, url string) ([]Status, error) {
	return with(ctx, url, func(p *goose.Provider) error {
		for try := 1; ; try++ {
			_, err := p.Up(ctx)
			switch {
			case err == nil:
				return nil
			case !lockTimedOut(err):
				return fmt.Errorf("migrate up: %w", err)
			case try == lockTries:
				return fmt.Errorf("migrate up: a transaction that stays open holds a lock that is needed; end it and run this again: %w", err)
			}
			select {
			case <-time.After(lockRest):
			case <-ctx.Done():
				return fmt.Errorf("migrate up: %w", errors.Join(ctx.Err(), err))
			}
		}
	})
}

// lockPatience is the lock_timeout of migrations, unless the URL gives another. Whoever serves meanwhile stands still for that long
// at most; the rests between are there for what they have put off.
const (
	lockPatience = "2s"
	lockTries    = 10
	lockRest     = time.Second / 2
)

// lockTimedOut says whether a lock did not come, or two waited for each other: lock_not_available and deadlock_detected (PostgreSQL's
// manual, appendix A). Nothing was done, and it may go better in a moment.
func lockTimedOut(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (pgErr.Code == "55P03" || pgErr.Code == "40P01")
}

// Down takes the newest migration back.
func Down(ctx context.Context, url string) ([]Status, error) {
	return with(ctx, url, func(p *goose.Provider) error {
		if _, err := p.Down(ctx); err != nil && !errors.Is(err, goose.ErrNoNextVersion) {
			return fmt.Errorf("migrate down: %w", err)
		}
		return nil
	})
}

// List says which migrations the database has, changing nothing.
func List(ctx context.Context, url string) ([]Status, error) {
	return with(ctx, url, func(*goose.Provider) error { return nil })
}

// with opens the database, lets act do its work under goose's session lock and reports the state that results.
func with(ctx context.Context, url string, act func(*goose.Provider) error) (_ []Status, err error) {
	cfg, err := pg.ParseURL(url)
	if err != nil {
		return nil, err
	}
	schema := cfg.RuntimeParams["search_path"]
	if _, given := cfg.RuntimeParams["lock_timeout"]; !given {
		cfg.RuntimeParams["lock_timeout"] = lockPatience
	}
	db := stdlib.OpenDB(*cfg)
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := ensureSchema(ctx, db, schema); err != nil {
		return nil, err
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return nil, fmt.Errorf("make the migration lock: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, FS, goose.WithSessionLocker(locker),
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	if err := act(p); err != nil {
		return nil, err
	}
	return list(ctx, p)
}

func list(ctx context.Context, p *goose.Provider) ([]Status, error) {
	rows, err := p.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the migrations' state: %w", err)
	}
	out := make([]Status, 0, len(rows))
	for _, r := range rows {
		out = append(out, Status{Version: r.Source.Version, Name: r.Source.Path, Applied: r.State == goose.StateApplied})
	}
	return out, nil
}

// ensureSchema makes the schema where it is missing. CREATE SCHEMA IF NOT EXISTS asks for the right to create even when
// there is nothing to do, which a role given a ready schema may lack; so look first.
func ensureSchema(ctx context.Context, db *sql.DB, schema string) error {
	var there bool
	err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, schema).Scan(&there)
	if err != nil {
		return fmt.Errorf("look for schema %s: %w", schema, err)
	}
	if there {
		return nil
	}
	_, err = db.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS `+pgx.Identifier{schema}.Sanitize())
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.ConstraintName == "pg_namespace_nspname_index" {
		return nil // another process made it at this moment: IF NOT EXISTS looks before it waits
	}
	if err != nil {
		return fmt.Errorf("make schema %s: %w", schema, err)
	}
	return nil
}
