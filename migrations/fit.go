package migrations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/pg"
)

// Fit is how a database's schema and this binary go together, by the numbers of migrations.
type Fit struct {
	Has    int64 // the newest that the database has; 0: it has none
	Knows  int64 // the newest that this binary has
	Oldest int64 // what a binary has to know to run on a schema that is newer than itself; 0 where that is not asked
}

// Older reports whether the schema lacks something.
func (f Fit) Older() bool { return f.Has < f.Knows }

// Newer reports whether the schema has what this binary does not know.
func (f Fit) Newer() bool { return f.Has > f.Knows }

// Runs reports whether this binary can work on the schema: it is its own, or a newer one that says so.
func (f Fit) Runs() bool { return f.Has == f.Knows || f.Newer() && f.Oldest > 0 && f.Oldest <= f.Knows }

const (
	hasSQL    = `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`
	oldestSQL = `SELECT oldest FROM schema_compatibility` // 0024_compatibility.sql
)

// Look compares them. It changes nothing and needs no session.
func Look(ctx context.Context, db pg.Querier) (Fit, error) {
	knows, err := newest(FS)
	if err != nil {
		return Fit{}, err
	}
	f := Fit{Knows: knows}
	if err := one(ctx, db, hasSQL, &f.Has); err != nil {
		return Fit{}, err
	}
	if f.Newer() {
		err = one(ctx, db, oldestSQL, &f.Oldest)
	}
	return f, err
}

// one reads a number; where there is no such table, or no row, it stays 0.
func one(ctx context.Context, db pg.Querier, sql string, into *int64) error {
	const undefinedTable = "42P01" // PostgreSQL's manual, appendix A
	err := db.QueryRow(ctx, sql).Scan(into)
	var pgErr *pgconn.PgError
	switch {
	case err == nil, errors.Is(err, pgx.ErrNoRows), errors.As(err, &pgErr) && pgErr.Code == undefinedTable:
		return nil
	}
	return pg.Fault(fmt.Errorf("read the schema's version: %w", err))
}

// newest is the greatest number of a migration among the files.
func newest(files fs.FS) (last int64, err error) {
	all, err := fs.Glob(files, "*.sql")
	if err != nil {
		return 0, fmt.Errorf("read the migrations: %w", err)
	}
	for _, name := range all {
		digits, _, _ := strings.Cut(path.Base(name), "_")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the migrations: %s has no number", name)
		}
		last = max(last, n)
	}
	return last, nil
}
