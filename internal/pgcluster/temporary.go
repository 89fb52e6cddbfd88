package pgcluster

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// temporaryPattern names the folders of ephemeral clusters.
const temporaryPattern = "postrider-pg-*"

// makeTemporary makes the folder of an ephemeral cluster. One that does not wait for the disk lies in memory where it can:
// a database is made of some 300 files, and copying one took 20 ms in memory against 300 ms on a virtual machine's disk.
func makeTemporary(opts Options) (string, error) {
	parent := opts.Dir
	if parent == "" && os.Getenv("TMPDIR") == "" {
		parent = memoryDir()
		if opts.durable() {
			parent = diskDir()
		}
	}
	if parent == "" {
		parent = os.TempDir()
	}
	sweepTemporary(parent)
	dir, err := os.MkdirTemp(parent, temporaryPattern)
	if err != nil {
		return "", fmt.Errorf("make a folder for PostgreSQL: %w", err)
	}
	return dir, nil
}

// durable reports whether the caller wants an ephemeral cluster to wait for the disk.
func (o Options) durable() bool { return o.Settings["fsync"] == "on" }

// diskDir is a temporary folder on a disk, or "". /tmp is in memory on many systems, which would make a benchmark of what
// waits for the disk worth nothing; /var/tmp outlives a restart (Filesystem Hierarchy Standard 3.0, section 5.15).
func diskDir() string {
	const dir = "/var/tmp"
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return ""
	}
	return dir
}

// sweepTemporary removes the folders of ephemeral clusters whose process was killed: nobody holds their lock. It leaves
// those of the last hour alone, for one may be just being made.
func sweepTemporary(parent string) {
	found, err := filepath.Glob(filepath.Join(parent, temporaryPattern))
	if err != nil {
		return
	}
	for _, dir := range found {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < time.Hour {
			continue
		}
		f := &folder{dir: dir}
		if f.takeLock() == nil {
			_ = f.close(true) // another user's folder stays where it is
		}
	}
}
