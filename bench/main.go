// Command bench measures what Postrider does against what the same machine can do without it, in the same run: each
// figure is a ratio, since the machine's own speed changes from one run to the next. It prints a table; the limits it is
// held to stand in docs/performance.md.
//
//	make bench
//
// It wants a PostgreSQL that waits for the disk (make bench starts one) and sends to loopback only. The receiver is a
// process of its own, so that its work is not mistaken for ours.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"time"
)

type options struct {
	runs     int
	drain    int
	raw      int
	enqueue  time.Duration
	latency  int
	database string
	profile  string
}

func main() {
	receiver := flag.Bool("receiver", false, "be the receiver (used by bench itself)")
	var o options
	flag.IntVar(&o.runs, "runs", 5, "how many times everything is measured; the median counts")
	flag.IntVar(&o.drain, "drain", 50_000, "deliveries to drain in a run")
	flag.IntVar(&o.raw, "raw", 50_000, "raw POSTs in a run")
	flag.DurationVar(&o.enqueue, "enqueue", 4*time.Second, "how long to enqueue in a run")
	flag.IntVar(&o.latency, "latency", 200, "events sent one by one in a run")
	flag.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of all runs to this file")
	flag.Parse()
	if *receiver {
		serveReceiver()
		return
	}
	o.database = os.Getenv("POSTRIDER_TEST_DATABASE_URL")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// measurement is one figure of one run.
type measurement struct {
	name string
	unit string
	got  float64
}

func run(ctx context.Context, o options) error {
	if o.database == "" {
		return fmt.Errorf("POSTRIDER_TEST_DATABASE_URL is not set: use make bench")
	}
	w, err := newWorld(ctx, o.database)
	if err != nil {
		return err
	}
	defer w.close()
	if o.profile != "" {
		f, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	var order []measurement
	all := map[string][]float64{}
	for n := range o.runs {
		fmt.Printf("run %d of %d\n", n+1, o.runs)
		got, err := w.measure(ctx, o)
		if err != nil {
			return err
		}
		for _, m := range got {
			if len(all[m.name]) == 0 {
				order = append(order, m)
			}
			all[m.name] = append(all[m.name], m.got)
			fmt.Printf("  %-52s %10.3f %s\n", m.name, m.got, m.unit)
		}
	}
	fmt.Printf("\n%-54s %10s %10s %10s\n", "median of "+fmt.Sprint(o.runs)+" runs", "median", "least", "most")
	for _, m := range order {
		v := all[m.name]
		slices.Sort(v)
		fmt.Printf("%-54s %10.3f %10.3f %10.3f %s\n", m.name, v[len(v)/2], v[0], v[len(v)-1], m.unit)
	}
	return nil
}

// measure takes every figure once, each next to what it is compared with.
func (w *world) measure(ctx context.Context, o options) ([]measurement, error) {
	raw, err := w.rawPosts(ctx, o.raw)
	if err != nil {
		return nil, fmt.Errorf("raw POSTs: %w", err)
	}
	drain, err := w.drain(ctx, o.drain)
	if err != nil {
		return nil, fmt.Errorf("drain: %w", err)
	}
	inserts, err := w.singleInserts(ctx, o.enqueue)
	if err != nil {
		return nil, fmt.Errorf("single inserts: %w", err)
	}
	single, err := w.enqueue(ctx, o.enqueue, 1)
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	batches, err := w.enqueue(ctx, o.enqueue, 100)
	if err != nil {
		return nil, fmt.Errorf("enqueue batches: %w", err)
	}
	base, latency, err := w.latency(ctx, o.latency)
	if err != nil {
		return nil, fmt.Errorf("latency: %w", err)
	}
	return []measurement{
		{"raw signed keep-alive POSTs", "/s", raw.rate},
		{"raw: CPU of the client per 1,000", "s", raw.cpu},
		{"drain / raw POSTs", "×", drain.rate / raw.rate},
		{"drain: CPU of Postrider / of the raw client", "×", drain.cpu / raw.cpu},
		{"drain: WAL per delivery", "bytes", drain.wal},
		{"single-row inserts, 64 clients", "/s", inserts.rate},
		{"enqueue one by one, 64 clients / single-row inserts", "×", single.rate / inserts.rate},
		{"enqueue p99 / single-row inserts' p99", "×", single.p99 / inserts.p99},
		{"enqueue in batches of 100 / single-row inserts", "×", batches.rate / inserts.rate},
		{"one commit + one POST, p50", "ms", base.p50},
		{"enqueue to first byte p50 / one commit + one POST", "×", latency.p50 / base.p50},
		{"enqueue to first byte p99 / one commit + one POST", "×", latency.p99 / base.p99},
	}, nil
}
