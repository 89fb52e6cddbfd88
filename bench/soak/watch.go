package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// sample is how much the program has of everything at one moment.
type sample struct {
	memory      float64 // MiB resident
	files       int     // open descriptors, connections among them
	goroutines  int
	connections int // to PostgreSQL
	backlog     int64
	tables      map[string]table
}

// table is how large a table is.
type table struct {
	Name string
	Dead int64 // rows
	Size int64 // bytes, with indexes
}

// watched are the tables that rows come to and leave, and those whose rows change with each failure.
var watched = []string{"deliveries", "endpoint_pace", "endpoints"} //nolint:gochecknoglobals // as a constant

func (s sample) String() string {
	text := fmt.Sprintf("%.0f MiB, %d files, %d goroutines, %d connections to PostgreSQL, %d unfinished", s.memory, s.files,
		s.goroutines, s.connections, s.backlog)
	for _, name := range watched {
		t := s.tables[name]
		text += fmt.Sprintf(", %s %d KiB with %d dead", name, t.Size>>10, t.Dead)
	}
	return text
}

// watch looks at the program from the outside.
type watch struct {
	s  *server
	db *pgxpool.Pool
}

// applicationName tells our own connections from the program's.
const applicationName = "soak"

func newWatch(ctx context.Context, s *server, url string) (*watch, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = applicationName
	cfg.MaxConns = 2
	db, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &watch{s: s, db: db}, nil
}

func (w *watch) close() { w.db.Close() }

func (w *watch) sample(ctx context.Context) (s sample, err error) {
	pid := w.s.cmd.Process.Pid
	if s.memory, err = resident(pid); err != nil {
		return s, err
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return s, err
	}
	s.files = len(files)
	if s.goroutines, err = w.goroutines(ctx); err != nil {
		return s, err
	}
	const query = `
SELECT (SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND backend_type = 'client backend' AND application_name <> $1),
       (SELECT count(*) FROM deliveries)`
	if err := w.db.QueryRow(ctx, query, applicationName).Scan(&s.connections, &s.backlog); err != nil {
		return s, err
	}
	rows, err := w.db.Query(ctx, `SELECT relname AS name, n_dead_tup AS dead, pg_total_relation_size(relid) AS size
  FROM pg_stat_user_tables WHERE relname = ANY ($1)`, watched)
	if err != nil {
		return s, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[table])
	s.tables = map[string]table{}
	for _, t := range found {
		s.tables[t.Name] = t
	}
	return s, err
}

// resident reads /proc/<pid>/statm (proc(5)): the second number is pages.
func resident(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, errors.New("/proc/<pid>/statm is too short")
	}
	pages, err := strconv.Atoi(fields[1])
	return float64(pages*os.Getpagesize()) / (1 << 20), err
}

// goroutines asks /metrics.
func (w *watch) goroutines(ctx context.Context) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.s.base+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "go_goroutines "); ok {
			return strconv.Atoi(value)
		}
	}
	return 0, errors.Join(errors.New("/metrics has no go_goroutines"), lines.Err())
}

// awaitEmpty waits until no delivery is unfinished.
func (w *watch) awaitEmpty(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		var left int64
		if err := w.db.QueryRow(ctx, `SELECT count(*) FROM deliveries`).Scan(&left); err != nil {
			return fmt.Errorf("wait for the backlog to drain: %w", err)
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d deliveries are unfinished after %s", left, patience)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
