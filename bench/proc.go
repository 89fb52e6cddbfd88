package main

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

// ticksPerSecond is USER_HZ, which Linux has fixed at 100 on every architecture that Go knows.
const ticksPerSecond = 100

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// pgCPUTime is what PostgreSQL's processes have used: the postmaster, its children, and those of them that have ended.
func (w *world) pgCPUTime(ctx context.Context) (time.Duration, error) {
	var backend int
	if err := w.db.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&backend); err != nil {
		return 0, err
	}
	it, err := readStat(backend)
	if err != nil {
		return 0, fmt.Errorf("look at PostgreSQL's processes, which have to be on this machine: %w", err)
	}
	postmaster, err := readStat(it.parent)
	if err != nil {
		return 0, err
	}
	ticks := postmaster.own + postmaster.ended
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range all {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if s, err := readStat(pid); err == nil && s.parent == it.parent { // an error: it has ended meanwhile
			ticks += s.own
		}
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

type stat struct {
	parent     int
	own, ended int64 // ticks of the process, and of its children that were waited for
}

// readStat reads /proc/<pid>/stat (proc(5)). The program's name in it may hold blanks and brackets.
func readStat(pid int) (s stat, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, err
	}
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	fields := strings.Fields(rest) // from the third on
	if len(fields) < 15 {
		return s, errors.New("/proc/<pid>/stat is too short")
	}
	s.parent, err = strconv.Atoi(fields[1])
	for i, to := range []*int64{&s.own, &s.own, &s.ended, &s.ended} {
		n, parseErr := strconv.ParseInt(fields[11+i], 10, 64)
		err = errors.Join(err, parseErr)
		*to += n
	}
	return s, err
}

// memory is how much of it a process has, in MiB: now, and the most it ever had.
func memory(pid int) (now, most float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		to := map[string]*float64{"VmRSS": &now, "VmHWM": &most}[name]
		if to == nil {
			continue
		}
		kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		if err != nil {
			return 0, 0, err
		}
		*to = kib / 1024
	}
	return now, most, nil
}
