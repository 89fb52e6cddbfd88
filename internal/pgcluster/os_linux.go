package pgcluster

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// endWithParent has the kernel send the child SIGINT when we end, however we end: PostgreSQL then breaks sessions off,
// writes everything out and stops. The kernel takes the thread that made the child for its parent, see spawn.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }

// runsIn reports whether the process is a server of that data folder: a server works in it. A dead process that nobody
// has collected yet works nowhere.
func runsIn(pid int, data string) bool {
	at, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return false
	}
	whole, err := filepath.EvalSymlinks(data)
	return err == nil && at == whole
}

// memoryDir is a folder in memory with room for tests' databases, or "". A container's usual 64 MiB are too few.
func memoryDir() string {
	const (
		dir    = "/dev/shm"
		enough = 2 << 30
	)
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil || stat.Bavail*uint64(stat.Bsize) < enough { //nolint:gosec // a size
		return ""
	}
	return dir
}
