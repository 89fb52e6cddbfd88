package pgtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func value(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) string {
	t.Helper()
	var v string
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func TestPool(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	for sql, want := range map[string]string{
		`SELECT to_regclass('tenants')::oid::regclass::text`: "tenants",
		`SELECT current_schema()::text`:                      "postrider",
		`SELECT current_setting('is_superuser')`:             "off",
		`SELECT count(*)::text FROM tenants`:                 "0",
	} {
		if got := value(t, pool, sql); got != want {
			t.Errorf("%s: %q, want %q", sql, got, want)
		}
	}
	if pgtest.Pool(t) != pool {
		t.Error("a second call gives another pool")
	}
	if !strings.Contains(pgtest.URL(t), "/"+value(t, pool, `SELECT current_database()::text`)+"?") {
		t.Error("the URL is of another database")
	}
	t.Run("a subtest has its own", func(t *testing.T) {
		t.Parallel()
		if pgtest.Pool(t) == pool {
			t.Error("it shares its parent's")
		}
	})
}

func TestAdminURL(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.AdminURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var got string
	err = conn.QueryRow(t.Context(), `SELECT current_setting('is_superuser') || ' ' || current_database()`).Scan(&got)
	if want := "on " + value(t, pgtest.Pool(t), `SELECT current_database()::text`); err != nil || got != want {
		t.Errorf("%q, want %q: %v", got, want, err)
	}
}

// stand is a test that the package is tried on: it keeps what it is told and runs its cleanups when told to.
type stand struct {
	testing.TB
	said     strings.Builder
	failed   bool
	cleanups []func()
}

var errFatal = errors.New("fatal")

func (s *stand) Helper()                   {}
func (s *stand) Failed() bool              { return s.failed }
func (s *stand) Cleanup(f func())          { s.cleanups = append(s.cleanups, f) }
func (s *stand) Logf(f string, a ...any)   { fmt.Fprintf(&s.said, f+"\n", a...) }
func (s *stand) Errorf(f string, a ...any) { s.failed = true; s.Logf(f, a...) }
func (s *stand) Fatalf(f string, a ...any) { s.Errorf(f, a...); panic(errFatal) }

func (s *stand) finish() {
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		s.cleanups[i]()
	}
}

func exists(t *testing.T, url string) bool {
	t.Helper()
	name := url[strings.LastIndex(url, "/")+1 : strings.Index(url, "?")]
	return value(t, pgtest.Pool(t), `SELECT (count(*) > 0)::text FROM pg_database WHERE datname = $1`, name) == "true"
}

func TestDroppedAfterwards(t *testing.T) { //nolint:paralleltest // it sets the environment
	for _, c := range []struct {
		keep   string
		failed bool
		kept   bool
	}{{"", false, false}, {"", true, false}, {"1", false, false}, {"1", true, true}} {
		t.Setenv("POSTRIDER_TEST_KEEP", c.keep)
		s := &stand{TB: t}
		url := pgtest.URL(s)
		s.failed = c.failed
		conn, err := pgx.Connect(t.Context(), url) // one that the test forgot does not keep the database
		if err != nil {
			t.Fatal(err)
		}
		s.finish()
		_ = conn.Close(t.Context()) // broken off, or not
		if exists(t, url) != c.kept || strings.Contains(s.said.String(), url) != c.kept {
			t.Errorf("%+v: said %q", c, s.said.String())
		}
		if c.kept {
			if _, err := pgtest.Pool(t).Exec(t.Context(), `DROP DATABASE `+url[strings.LastIndex(url, "/")+1:strings.Index(url, "?")]); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestNoServer(t *testing.T) {
	t.Setenv("POSTRIDER_TEST_DATABASE_URL", "")
	s := &stand{TB: t}
	defer func() {
		if recover() != errFatal || !strings.Contains(s.said.String(), "make test") { //nolint:errorlint // a panic's value
			t.Errorf("said %q", s.said.String())
		}
	}()
	pgtest.Pool(s)
	t.Error("a test without a server goes on")
}

// What a test's database costs: see the package comment.
func BenchmarkURL(b *testing.B) {
	if os.Getenv("POSTRIDER_TEST_DATABASE_URL") == "" {
		b.Fatal("use go run ./scripts/withpg")
	}
	for b.Loop() {
		b.StopTimer()
		s := &stand{TB: b}
		b.StartTimer()
		pgtest.URL(s)
		s.finish()
	}
}
