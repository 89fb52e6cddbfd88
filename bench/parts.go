package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// bench is what the parts work with.
type bench struct {
	options
	w    *world
	full *world // with much in its tables; nil until a part wants it
	big  *world // with a month of history; nil until the part pages wants it

	rawOfRun throughput // the raw POSTs of this run; zero: not measured yet
}

func (b *bench) close() {
	b.w.close()
	for _, w := range []*world{b.full, b.big} {
		if w != nil {
			w.close()
		}
	}
}

// part is something to measure.
type part struct {
	name string
	once bool // it takes minutes and repeats what matters by itself
	run  func(*bench, context.Context) ([]measurement, error)
}

// parts are in the order in which they are measured: what is done once comes after the rest.
func parts() []part {
	return []part{
		{name: "drain", run: (*bench).measureDrain},
		{name: "enqueue", run: (*bench).measureEnqueue},
		{name: "tx", run: (*bench).measureTx},
		{name: "latency", run: (*bench).measureLatency},
		{name: "mixed", run: (*bench).measureMixed},
		{name: "scheduled", run: (*bench).measureScheduled},
		{name: "fair", run: (*bench).measureFair},
		{name: "memory", run: (*bench).measureMemory},
		{name: "two", run: (*bench).measureTwo},
		{name: "backlog", run: (*bench).measureBacklog},
		{name: "pages", once: true, run: (*bench).measurePages},
		{name: "retention", once: true, run: (*bench).measureRetention},
		{name: "snapshot", once: true, run: (*bench).measureSnapshot},
		{name: "steady", once: true, run: (*bench).measureSteady},
	}
}

func partNames() []string {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return names
}

// choose gives the parts that are named in a list with commas; all for an empty one.
func choose(list string) ([]part, error) {
	all := parts()
	if list == "" {
		return all, nil
	}
	names := strings.Split(list, ",")
	for _, n := range names {
		if !slices.Contains(partNames(), n) {
			return nil, fmt.Errorf("-only %s: there is no such part; there are %s", n, strings.Join(partNames(), ", "))
		}
	}
	return slices.DeleteFunc(all, func(p part) bool { return !slices.Contains(names, p.name) }), nil
}

// measure fills the table: the parts that repeat, run by run, so that what is compared with each other is measured within
// the same minute; then those that are measured once.
func (b *bench) measure(ctx context.Context, chosen []part, t *table) error {
	for n := range b.runs {
		b.rawOfRun = throughput{}
		for _, p := range chosen {
			if p.once {
				continue
			}
			if err := b.measurePart(ctx, p, fmt.Sprintf("run %d of %d", n+1, b.runs), t); err != nil {
				return err
			}
		}
	}
	b.rawOfRun = throughput{}
	for _, p := range chosen {
		if !p.once {
			continue
		}
		if err := b.measurePart(ctx, p, "once", t); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) measurePart(ctx context.Context, p part, which string, t *table) error {
	begun := time.Now()
	fmt.Printf("%s: %s\n", which, p.name)
	got, err := p.run(b, ctx)
	if err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return fmt.Errorf("%s: %w", p.name, err)
	}
	for _, m := range got {
		fmt.Printf("  %s\n", m)
		t.add(m)
	}
	fmt.Printf("  (%s took %s)\n", p.name, time.Since(begun).Round(100*time.Millisecond))
	return nil
}

// raw is the rate of raw POSTs, measured once a run.
func (b *bench) raw(ctx context.Context) (throughput, error) {
	if b.rawOfRun.rate > 0 {
		return b.rawOfRun, nil
	}
	got, err := b.w.rawPosts(ctx, b.options.raw)
	if err != nil {
		return got, fmt.Errorf("raw POSTs: %w", err)
	}
	b.rawOfRun = got
	return got, nil
}
