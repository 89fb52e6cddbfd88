package pg_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/postrider/postrider/internal/pg"
)

// A URL without a password takes it from the file that PGPASSFILE names, as the units of deploy/systemd have it.
func TestThePasswordMayBeInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pgpass")
	if err := os.WriteFile(path, []byte("db.internal:5432:postrider:postrider:from-the-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGPASSFILE", path)
	cfg, err := pg.ParseURL("postgres://postrider@db.internal:5432/postrider")
	if err != nil || cfg.Password != "from-the-file" {
		t.Errorf("%v, %q", err, cfg.Password)
	}
}
