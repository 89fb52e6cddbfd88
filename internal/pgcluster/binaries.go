package pgcluster

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrNoPostgres says that no PostgreSQL server that would do is installed. Its text tells how to get one.
var ErrNoPostgres = errors.New("PostgreSQL's server is not installed here; get it with `apt-get install postgresql` " +
	"(Debian, Ubuntu), `dnf install postgresql-server` (Fedora) or `brew install postgresql` (macOS)")

// oldestMajor is the oldest PostgreSQL that Postrider is run with.
const oldestMajor = 15

// binDirs are the places where packages put the server's programs, which many of them keep out of PATH.
var binDirs = []string{
	"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                   // the PostgreSQL project's packages for Fedora and RHEL
	"/usr/libexec/postgresql*",                           // Alpine
	"/usr/local/pgsql/bin",                               // built from source
	"/opt/homebrew/opt/postgresql*/bin",                  // Homebrew, Apple silicon
	"/usr/local/opt/postgresql*/bin",                     // Homebrew, Intel
	"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
}

// binaries is a folder with one version of the server's programs.
type binaries struct {
	dir   string
	major int
}

// findBinaries gives the programs to run a cluster of that major version with, or the newest for 0, a cluster yet to be
// made. A server in PATH goes before all others.
func findBinaries(major int) (binaries, error) {
	var all []binaries
	for _, pattern := range binDirs {
		found, err := filepath.Glob(filepath.Join(pattern, "postgres"))
		if err != nil {
			return binaries{}, fmt.Errorf("look for PostgreSQL in %s: %w", pattern, err)
		}
		for _, path := range found {
			if b, ok := inspect(path); ok {
				all = append(all, b)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b binaries) int { return cmp.Compare(b.major, a.major) })
	if path, err := exec.LookPath("postgres"); err == nil {
		if b, ok := inspect(path); ok {
			all = slices.Insert(all, 0, b)
		}
	}
	return choose(all, major)
}

// choose takes the first that does.
func choose(all []binaries, major int) (binaries, error) {
	var have []string
	for _, b := range all {
		if b.major == major || major == 0 && b.major >= oldestMajor {
			return b, nil
		}
		have = append(have, strconv.Itoa(b.major))
	}
	switch {
	case len(all) == 0:
		return binaries{}, ErrNoPostgres
	case major == 0:
		return binaries{}, fmt.Errorf("here is only PostgreSQL %s, and %d or newer is needed: %w",
			strings.Join(have, ", "), oldestMajor, ErrNoPostgres)
	}
	return binaries{}, fmt.Errorf("the cluster was made by PostgreSQL %d, and here is only %s; install %d, or remove the folder to "+
		"begin anew: %w", major, strings.Join(have, ", "), major, ErrNoPostgres)
}

var versionText = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// inspect looks at the folder of a `postgres`, by way of its links, since the programs find their files from where they
// really are. It takes only one that has initdb beside it.
func inspect(path string) (binaries, bool) {
	program, err := filepath.EvalSymlinks(path)
	if err != nil {
		return binaries{}, false
	}
	dir := filepath.Dir(program)
	if info, err := os.Stat(filepath.Join(dir, "initdb")); err != nil || info.Mode()&0o111 == 0 {
		return binaries{}, false
	}
	out, err := exec.Command(program, "--version").Output() //nolint:gosec // found by us
	if err != nil {
		return binaries{}, false
	}
	match := versionText.FindSubmatch(out)
	if match == nil {
		return binaries{}, false
	}
	major, err := strconv.Atoi(string(match[1]))
	return binaries{dir: dir, major: major}, err == nil
}

// command prepares one of the programs to run in the cluster's folder as the server's user, with messages in English,
// since some are read, and untouched by the PG… variables of whoever started us.
func (b binaries) command(f *folder, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(b.dir, name), args...) //nolint:gosec // found by us
	cmd.Dir = f.dir
	for _, pair := range os.Environ() {
		if strings.HasPrefix(pair, "PG") || strings.HasPrefix(pair, "LC_") || strings.HasPrefix(pair, "LANG") {
			continue
		}
		cmd.Env = append(cmd.Env, pair)
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	cmd.SysProcAttr = f.account.attributes()
	return cmd
}
