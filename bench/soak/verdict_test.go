package main

import (
	"strings"
	"testing"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	began := sample{memory: 30, files: 40, goroutines: 50, connections: 14, tables: map[string]table{"deliveries": {Size: 1 << 20}}}
	if got := began.faults(began); len(got) > 0 {
		t.Errorf("nothing has changed: %q", got)
	}
	for what, change := range map[string]func(*sample){
		"memory":                 func(s *sample) { s.memory += moreMemory + 1 },
		"files":                  func(s *sample) { s.files += moreFiles + 1 },
		"goroutines":             func(s *sample) { s.goroutines += moreGoroutines + 1 },
		"PostgreSQL":             func(s *sample) { s.connections = connections + 1 },
		"deliveries is":          func(s *sample) { s.tables = map[string]table{"deliveries": {Size: 2<<20 + tableSize}} },
		"endpoint_pace has 9999": func(s *sample) { s.tables = map[string]table{"endpoint_pace": {Dead: 9999}} },
	} {
		s := began
		change(&s)
		if got := s.faults(began); len(got) != 1 || !strings.Contains(got[0], what) {
			t.Errorf("%s: %q", what, got)
		}
	}
}

func TestGrown(t *testing.T) {
	t.Parallel()
	var steady, leaking []sample
	for i := range 40 {
		steady = append(steady, sample{memory: 100 + float64(i%5), files: 80, goroutines: 200})
		leaking = append(leaking, sample{memory: 100, files: 80, goroutines: 200 + 20*i})
	}
	if got := grown(steady); len(got) > 0 {
		t.Errorf("steady: %q", got)
	}
	if got := grown(leaking); len(got) != 1 || !strings.Contains(got[0], "goroutines") {
		t.Errorf("leaking: %q", got)
	}
}

// Each kind comes as often as its share, and every tenant has its turn.
func TestMix(t *testing.T) {
	t.Parallel()
	p := &producer{}
	for _, k := range kinds() {
		for range k.share {
			p.mix = append(p.mix, k)
		}
	}
	got := map[string]int{}
	for n := range len(p.mix) {
		got[p.pick(int64(n)).name]++
	}
	for _, k := range kinds() {
		if got[k.name] != k.share {
			t.Errorf("%s: %d times, want %d", k.name, got[k.name], k.share)
		}
	}
}
