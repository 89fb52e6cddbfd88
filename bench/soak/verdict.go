package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// What counts as having returned. Descriptors and goroutines may be more than at the start by the connections that the
// database's pool keeps. Memory is what Go's collector gives back to the system in the minutes after a load, not all of
// it. Dead rows are those below autovacuum's threshold, so that nobody has come for them yet.
const (
	moreMemory     = 64           // MiB
	moreFiles      = maxConns     // descriptors
	moreGoroutines = 16           // goroutines
	connections    = 3 + maxConns // that and one that listens, one that migrated and one to spare
	tableSize      = 32 << 20     // bytes
	deadRows       = 2000
	lookEvery      = 5 * time.Second
)

// faults says what of a sample has not returned to where it began.
func (s sample) faults(began sample) (out []string) {
	fault := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if s.memory > began.memory+moreMemory {
		fault("memory is %.0f MiB, and was %.0f; at most %d more were expected", s.memory, began.memory, moreMemory)
	}
	if s.files > began.files+moreFiles {
		fault("%d files are open, and there were %d; at most %d more were expected", s.files, began.files, moreFiles)
	}
	if s.goroutines > began.goroutines+moreGoroutines {
		fault("%d goroutines run, and there were %d; at most %d more were expected", s.goroutines, began.goroutines, moreGoroutines)
	}
	if s.connections > connections {
		fault("%d connections to PostgreSQL are open; at most %d were expected", s.connections, connections)
	}
	for _, name := range watched {
		t := s.tables[name]
		if t.Size > began.tables[name].Size+tableSize {
			fault("table %s is %d KiB large; at most %d KiB more than %d were expected", name, t.Size>>10, tableSize>>10,
				began.tables[name].Size>>10)
		}
		if t.Dead > deadRows {
			fault("table %s has %d dead rows; at most %d were expected", name, t.Dead, deadRows)
		}
	}
	return out
}

// awaitReturn looks until everything has returned, and gives what has not when patience ends. Idle connections are kept for
// a minute, and autovacuum comes by once in a minute.
func awaitReturn(ctx context.Context, w *watch, began sample, patience time.Duration) ([]string, error) {
	begun := time.Now()
	for {
		s, err := w.sample(ctx)
		if err != nil {
			return nil, err
		}
		left := s.faults(began)
		if len(left) == 0 || time.Since(begun) > patience {
			fmt.Printf("%8s  %s, %s after the drain\n", "ended", s, time.Since(begun).Round(time.Second))
			return left, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

// grown compares the second quarter of the load with the last, each by its mean: what leaks goes on growing.
func grown(all []sample) (out []string) {
	quarter := len(all) / 4
	if quarter == 0 {
		return nil
	}
	for _, m := range []struct {
		name  string
		of    func(sample) float64
		slack float64 // what may come on top of a fifth more
	}{
		{"memory in MiB", func(s sample) float64 { return s.memory }, 32},
		{"open files", func(s sample) float64 { return float64(s.files) }, 50},
		{"goroutines", func(s sample) float64 { return float64(s.goroutines) }, 100},
	} {
		early, late := mean(all[quarter:2*quarter], m.of), mean(all[len(all)-quarter:], m.of)
		if late > early*1.2+m.slack {
			out = append(out, fmt.Sprintf("%s grew under the steady load, from %.0f to %.0f", m.name, early, late))
		}
	}
	return out
}

func mean(all []sample, of func(sample) float64) float64 {
	sum := 0.0
	for _, s := range all {
		sum += of(s)
	}
	return sum / float64(len(all))
}

// account says what is not known of the accepted events: each is there, each of its deliveries is finished, and what is said
// to have succeeded is what receivers took.
func account(ctx context.Context, db *pgxpool.Pool, p *producer, r *receiver) (out []string, err error) {
	fault := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	const query = `
SELECT (SELECT count(*) FROM events),
       (SELECT count(*) FROM events e CROSS JOIN unnest(e.delivery_ids) AS d(id)
         WHERE NOT EXISTS (SELECT FROM deliveries_finished f WHERE f.shard = e.shard AND f.id = d.id)),
       (SELECT count(*) FROM events e WHERE cardinality(e.delivery_ids) = 0 AND e.skipped IS NULL),
       (SELECT count(*) FROM events e WHERE cardinality(e.delivery_ids) = 0 AND e.skipped IS NOT NULL),
       (SELECT count(*) FROM deliveries_finished f WHERE NOT EXISTS (
           SELECT FROM attempts a WHERE a.shard = f.shard AND a.delivery_id = f.id) AND f.state <> 'cancelled'),
       (SELECT count(*) FROM deliveries_finished WHERE state = 'succeeded'),
       (SELECT count(*) FROM deliveries_finished WHERE state = 'failed'),
       (SELECT count(*) FROM deliveries_finished WHERE state = 'cancelled')`
	var events, lost, nowhere, skipped, untried, succeeded, failed, cancelled int64
	if err := db.QueryRow(ctx, query).Scan(&events, &lost, &nowhere, &skipped, &untried, &succeeded, &failed, &cancelled); err != nil {
		return nil, fmt.Errorf("account for the events: %w", err)
	}
	took, twice := r.accepted()
	fmt.Printf("%d events accepted; deliveries: %d succeeded, %d failed, %d cancelled; %d went nowhere, their endpoint being dead; taken more than once: %d\n",
		p.accepted.Load(), succeeded, failed, cancelled, skipped, twice)
	if events != p.accepted.Load() {
		fault("%d events are there, and %d were accepted", events, p.accepted.Load())
	}
	if lost > 0 {
		fault("%d deliveries of events are neither unfinished nor finished", lost)
	}
	if nowhere > 0 {
		fault("%d events have no delivery, and do not say why", nowhere)
	}
	if untried > 0 {
		fault("%d deliveries are finished without an attempt that is kept", untried)
	}
	if int64(took) != succeeded {
		fault("%d deliveries are said to have succeeded, and receivers took %d", succeeded, took)
	}
	if twice > 0 {
		fault("%d deliveries were taken more than once, though nothing was killed", twice)
	}
	return out, nil
}
