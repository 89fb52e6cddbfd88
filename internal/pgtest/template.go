package pgtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/migrations"
)

// create makes a migrated database and gives its name.
func create(ctx context.Context, base string) (string, error) {
	template, err := templateOnce(base)
	if err != nil {
		return "", err
	}
	name := "test_" + strings.ToLower(rand.Text())
	err = onServer(ctx, base, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `CREATE DATABASE `+name+` TEMPLATE `+template)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("make the test's database: %w", err)
	}
	return name, nil
}

var (
	templatesMu sync.Mutex
	templates   = map[string]string{} // by server
)

// templateOnce gives the server's template. A failure is not remembered; the next test meets it again, and says so.
func templateOnce(base string) (string, error) {
	templatesMu.Lock()
	defer templatesMu.Unlock()
	if name := templates[base]; name != "" {
		return name, nil
	}
	// No single test's context: it is made for all of them.
	ctx, cancel := context.WithTimeout(context.Background(), actPatience)
	defer cancel()
	name, err := makeTemplate(ctx, base)
	if err == nil {
		templates[base] = name
	}
	return name, err
}

// templateLock is an advisory lock's key: the packages' test binaries run side by side, and one of them makes the template.
const templateLock = 7_062_114_800

// makeTemplate makes the template where it is missing. It is marked as one when it is whole, and named by what was put
// into it, so that a server which outlives a change of the migrations does not serve yesterday's.
func makeTemplate(ctx context.Context, base string) (string, error) {
	sum, err := digest(migrations.FS)
	if err != nil {
		return "", err
	}
	name := "template_" + sum
	target, err := replaceDatabase(base, name)
	if err != nil {
		return "", err
	}
	return name, onServer(ctx, base, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, templateLock); err != nil { // until we disconnect
			return fmt.Errorf("wait for the template's lock: %w", err)
		}
		var whole bool
		err := conn.QueryRow(ctx, `SELECT datistemplate FROM pg_database WHERE datname = $1`, name).Scan(&whole)
		if err == nil && whole {
			return nil
		}
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("look for the template: %w", err)
		}
		for _, sql := range []string{`DROP DATABASE IF EXISTS ` + name, `CREATE DATABASE ` + name} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return fmt.Errorf("make the template: %w", err)
			}
		}
		if _, err := migrations.Up(ctx, target); err != nil {
			return fmt.Errorf("make the template: %w", err)
		}
		if _, err := conn.Exec(ctx, `ALTER DATABASE `+name+` IS_TEMPLATE true`); err != nil {
			return fmt.Errorf("finish the template: %w", err)
		}
		return nil
	})
}

// digest names the content of the files: 16 hex digits.
func digest(files fs.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(files, path)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		_, err = fmt.Fprintf(sum, "%s %d\n%s", path, len(raw), raw)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read the migrations: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// replaceDatabase puts another database into a URL.
func replaceDatabase(base, name string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme == "" {
		return "", fmt.Errorf("%s is no URL", urlVariable) // not its text: it holds a password
	}
	u.Path = "/" + name
	return u.String(), nil
}

func withDatabase(t testing.TB, base, name string) string {
	t.Helper()
	u, err := replaceDatabase(base, name)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return u
}
