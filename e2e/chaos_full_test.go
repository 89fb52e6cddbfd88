//go:build chaos

package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pgcluster"
)

// small is a file system in memory with room for a new cluster and little more.
func small(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("a disk that is full is a small tmpfs, which needs root to mount: run this test as root, as CI does")
	}
	dir, err := os.MkdirTemp("", "postrider-full-") //nolint:usetesting // that one is closed to PostgreSQL's user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0711,size="+size); err != nil {
		t.Fatalf("mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount the tmpfs: %v", err)
		}
	})
	return dir
}

// ballast fills a file system up.
func ballast(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill the disk: %v", err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// The disk fills up under load. First PostgreSQL takes no more rows (53100), then it cannot write its log and crashes, and
// does not come up again. An operator makes room and starts it.
func TestChaosDiskFull(t *testing.T) {
	t.Parallel()
	dir := small(t, "192m")
	c := durable(t, pgcluster.Options{Dir: dir, Settings: map[string]string{
		"max_wal_size": "32MB", "min_wal_size": "32MB", "shared_buffers": "16MB",
	}})
	s := besiege(t, "PostgreSQL: disk full, until it crashes", c.URL(), settings{"DELIVERY_MAX_IN_FLIGHT": "64"})
	p := s.start(nil)
	s.settle(p)
	admin := connect(t, c.AdminURL())
	s.produce(4, load(4000))
	s.awaitAccepted(load(1000))
	free := ballast(t, dir)
	s.awaitRefused(p)
	crashed := false
	for range 200 { // each takes a new file for the log, when there is something in it
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := admin.Exec(ctx, `SELECT pg_switch_wal(), pg_logical_emit_message(false, 'full', repeat('x', 100000))`)
		cancel()
		if crashed = admin.IsClosed(); crashed {
			t.Logf("PostgreSQL is gone: %v", err)
			break
		}
	}
	if !crashed {
		t.Error("PostgreSQL withstood a full disk; the test has not shown what it is for")
	}
	s.awaitRefused(p)
	free()
	if !back(t, c) {
		if err := c.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.verdict(64)
	p.alive()
}

// back waits for PostgreSQL to recover by itself.
func back(t *testing.T, c *pgcluster.Cluster) bool {
	t.Helper()
	for late := time.After(3 * time.Second); ; {
		conn, err := pgx.Connect(t.Context(), c.AdminURL())
		if err == nil {
			_ = conn.Close(t.Context())
			return true
		}
		select {
		case <-late:
			return false
		case <-time.After(100 * time.Millisecond): // nobody tells when a server is up
		}
	}
}
