//go:build ops

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pgtest"
)

// before is the newest migration of the version before this one.
const before = 19

// An upgrade as operators do it: the version before serves under load, the new one migrates meanwhile and starts beside it, requests
// are led to the new processes and the old ones are stopped. Nothing is lost, nothing is sent twice, and no producer is refused.
func TestOpsUpgradeWithoutDowntime(t *testing.T) {
	t.Parallel()
	old := buildBefore(t)
	database := pgtest.URL(t)
	of := settings{anotherBinary: old, "DATABASE_URL": database, "DATABASE_MIGRATE_ON_START": "false"}
	bare(t, database)
	if code, said := output(t, settings{anotherBinary: old, "DATABASE_URL": database}, "migrate", "up"); code != 0 {
		t.Fatalf("the version before migrates: %d, %s", code, said)
	}
	s := besiege(t, "upgrade without downtime", database, settings{"DATABASE_MIGRATE_ON_START": "false"})
	s.answers(func(n int, _ request) string {
		if n%10 == 0 {
			s.failed.Add(1)
			return answer(http.StatusInternalServerError)
		}
		return answer(http.StatusOK)
	})
	olds := []*process{s.start(of), s.start(of)}
	s.settle(olds[0])
	s.use(olds...)
	const events = 6000
	s.produce(4, events)
	s.awaitAccepted(events / 10)
	if code, said := output(t, settings{"DATABASE_URL": database}, "migrate", "up"); code != 0 || strings.Contains(said, "pending") {
		t.Fatalf("migrate up while the version before serves: %d, %s", code, said)
	}
	s.awaitAccepted(events * 3 / 10) // by the old version on the new schema
	news := []*process{s.start(nil), s.start(nil)}
	s.use(append(news, olds...)...)
	s.awaitAccepted(events * 5 / 10)
	s.use(news...)
	s.awaitAccepted(s.count() + 100) // what was on its way to the old ones has been answered
	for _, p := range olds {
		p.stop()
	}
	if n := s.count(); n > events*9/10 {
		t.Errorf("%d of %d events were accepted before the old version was gone: the upgrade was not under load", n, events)
	}
	s.verdict(0)
	if refused, cut := s.refused.Load(), s.cut.Load(); refused+cut > 0 {
		t.Errorf("%d calls of producers were refused, %d not answered", refused, cut)
	}
	var left int
	s.query(`SELECT count(*)::int FROM nodes WHERE owner IS NOT NULL`, &left)
	if left != len(news) {
		t.Errorf("%d node numbers are in use by %d processes", left, len(news))
	}
}

// bare takes everything of ours out of the test's database.
func bare(t *testing.T, database string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `DROP SCHEMA postrider CASCADE`); err != nil {
		t.Fatal(err)
	}
}

// buildBefore builds the version before out of the repository's history: the last commit before a migration came after `before`.
func buildBefore(t *testing.T) (path string) {
	t.Helper()
	if said := git(t, "rev-parse", "--is-shallow-repository"); said != "false" {
		t.Fatal("the version before is built out of the repository's history, which is cut off here: git fetch --unshallow")
	}
	commit := git(t, "rev-parse", commitBefore(t))
	path, err := filepath.Abs(filepath.Join("..", "bin", "before-"+commit))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		return path // of an earlier run
	}
	dir := t.TempDir()
	tar := filepath.Join(dir, "source.tar")
	git(t, "archive", "--output", tar, commit)
	for _, step := range [][]string{{"tar", "-xf", tar}, {"go", "build", "-o", path, "./cmd/postrider"}} {
		cmd := exec.Command(step[0], step[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build the version before: %s: %v\n%s", step[0], err, out)
		}
	}
	return path
}

var addedMigration = regexp.MustCompile(`^migrations/(\d{4})_\w+\.sql$`)

func commitBefore(t *testing.T) string {
	t.Helper()
	commit := ""
	for line := range strings.Lines(git(t, "log", "--reverse", "--diff-filter=A", "--name-only", "--format=commit %H", "--", "migrations")) {
		line = strings.TrimSpace(line)
		if hash, is := strings.CutPrefix(line, "commit "); is {
			commit = hash
			continue
		}
		if m := addedMigration.FindStringSubmatch(line); m != nil && m[1] > fmt.Sprintf("%04d", before) {
			return commit + "^"
		}
	}
	return "HEAD"
}

// git runs in the repository, and gives what it prints.
func git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the version before is built out of the repository's history, and git %s fails: %v", args[0], err)
	}
	return strings.TrimSpace(string(out))
}
