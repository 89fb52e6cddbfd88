package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// The files of a profile. What was allocated is counted from the start of the process, so what went before the drain is
// kept as well, to be taken off (go tool pprof -base).
const (
	cpuProfile   = "cpu.pprof"
	allocsBefore = "allocs-before.pprof"
	allocsAfter  = "allocs.pprof"
)

// writeProfiles drains twice, first to warm up, and profiles the second drain alone.
func (b *bench) writeProfiles(ctx context.Context) error {
	if err := os.MkdirAll(b.folder, 0o755); err != nil { //nolint:gosec // profiles are no secret
		return err
	}
	if _, err := b.w.drainAndClear(ctx, b.drain); err != nil {
		return err
	}
	endpoints, err := b.w.drainEndpoints(ctx, (b.drain+perEndpoint-1)/perEndpoint)
	if err != nil {
		return err
	}
	first, err := b.w.fill(ctx, filling{endpoints: endpoints, n: b.drain, payload: b.w.payload})
	if err != nil {
		return err
	}
	if err := b.writeAllocs(allocsBefore); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(b.folder, cpuProfile))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	got, err := b.w.timeDrain(ctx, b.drain)
	pprof.StopCPUProfile()
	if err != nil {
		return err
	}
	runtime.ReadMemStats(&after)
	if err := b.writeAllocs(allocsAfter); err != nil {
		return err
	}
	n := float64(b.drain)
	fmt.Printf("drained %d: %.0f/s, CPU per 1,000: %.3f s here and %.3f s in PostgreSQL, WAL per delivery: %.0f bytes\n",
		b.drain, got.rate, got.cpu, got.pgCPU, got.wal)
	fmt.Printf("allocated per delivery: %.0f objects, %.0f bytes; %d collections\n", float64(after.Mallocs-before.Mallocs)/n,
		float64(after.TotalAlloc-before.TotalAlloc)/n, after.NumGC-before.NumGC)
	return b.w.succeeded(ctx, first, b.drain)
}

func (b *bench) writeAllocs(name string) error {
	runtime.GC() // the profile is as of the last collection
	f, err := os.Create(filepath.Join(b.folder, name))
	if err != nil {
		return err
	}
	if err := pprof.Lookup("allocs").WriteTo(f, 0); err != nil {
		return err
	}
	return f.Close()
}
