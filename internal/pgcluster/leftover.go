package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// endLeftover clears away what a killed process of ours left. We hold the folder's lock, so a server that still runs in it
// has lost the process that it belonged to: on Linux it is just ending, elsewhere nobody has told it to. A pid file whose
// server is gone is PostgreSQL's own business, unless another program has that pid by now, for then PostgreSQL would
// refuse to start.
func (f *folder) endLeftover(ctx context.Context) error {
	pidFile := filepath.Join(f.data(), "postmaster.pid")
	pid := readPid(pidFile)
	if pid <= 0 {
		return nil
	}
	if !runsIn(pid, f.data()) {
		if syscall.Kill(pid, 0) == nil {
			if err := os.Remove(pidFile); err != nil {
				return fmt.Errorf("remove a pid file left over: %w", err)
			}
		}
		return nil
	}
	for _, s := range []struct {
		signal   syscall.Signal
		patience time.Duration
	}{
		{syscall.SIGINT, fastPatience}, {syscall.SIGQUIT, immediatePatience}, {syscall.SIGKILL, immediatePatience},
	} {
		if err := syscall.Kill(pid, s.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end a PostgreSQL left over: %w", err)
		}
		if gone, err := f.awaitGone(ctx, pid, s.patience); gone || err != nil {
			return err
		}
	}
	return fmt.Errorf("end a PostgreSQL left over: process %d does not go", pid)
}

// awaitGone polls, for the process is no child of ours.
func (f *folder) awaitGone(ctx context.Context, pid int, patience time.Duration) (bool, error) {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if !runsIn(pid, f.data()) {
			return true, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false, fmt.Errorf("wait for a PostgreSQL left over to end: %w", context.Cause(ctx))
		}
	}
	return false, nil
}

// readPid gives the first line of postmaster.pid; 0: there is none.
func readPid(path string) int {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return 0
	}
	return pid
}
