// Command bench measures what Postrider does against what the same machine can do without it, in the same run: each
// figure is a ratio, since the machine's own speed changes from one run to the next. It prints a table with what is
// wanted of each; docs/performance.md says why.
//
//	make bench
//	scripts/bench -only drain,latency -runs 3
//
// It wants a PostgreSQL of its own on this machine that waits for the disk (make bench starts one) and sends to loopback
// only. What takes and what makes load are processes of their own, so that their work is not mistaken for ours.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"time"
)

type options struct {
	runs    int
	only    string
	json    string
	profile string // of everything
	folder  string // for the profiles of a drain alone

	drain, raw        int
	enqueue           time.Duration
	tenants           int
	latency           int
	mixed             time.Duration
	finished, future  int
	scheduled         int
	scheduledFor      time.Duration
	scheduledFuture   int
	snapshot          time.Duration
	steady            int
	fair              time.Duration
	fairRate, fairDue int
	memoryDue         int
	two               int
	pages             int
	retention         int

	database string
}

// The roles that bench starts itself in, and the flag that says which.
const (
	roleFlag       = "role"
	roleReceiver   = "receiver"
	roleLoad       = "load"
	roleDispatcher = "dispatcher"
)

// garbage is what cmd/postrider sets; the raw client has it too, being in the same process.
const garbage = 400

const runPatience = 12 * time.Hour

func main() {
	role := flag.String(roleFlag, "", "be one of bench's own processes (used by bench itself)")
	var child childOptions
	flag.IntVar(&child.node, "node", 2, "the node number of a dispatcher's process (used by bench itself)")
	flag.IntVar(&child.inFlight, "in-flight", 0, "the max_in_flight of a dispatcher's process (used by bench itself)")
	o := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	// With a deadline, so that package pg sets none: to fill and vacuum tables of millions of rows may take long.
	ctx, cancel := context.WithTimeout(ctx, runPatience)
	defer cancel()
	var err error
	switch *role {
	case "":
		debug.SetGCPercent(garbage)
		err = run(ctx, o)
	case roleReceiver:
		err = serveReceiver()
	case roleLoad:
		err = serveLoad()
	case roleDispatcher:
		debug.SetGCPercent(garbage)
		err = serveDispatcher(ctx, o.database, child)
	default:
		err = fmt.Errorf("there is no role %q", *role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse() options {
	var o options
	flag.IntVar(&o.runs, "runs", 5, "how many times everything is measured; the median counts")
	flag.StringVar(&o.only, "only", "", "what to measure, with commas between: "+strings.Join(partNames(), ", ")+"; all if empty")
	flag.StringVar(&o.json, "json", "", "write the table to this `file` as JSON as well")
	flag.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of all that this process does to this `file`")
	flag.StringVar(&o.folder, "profile", "", "measure nothing, and write profiles of a drain alone to this `folder`")
	flag.IntVar(&o.drain, "drain", 50_000, "deliveries to drain")
	flag.IntVar(&o.raw, "raw", 50_000, "raw POSTs to hold them against")
	flag.DurationVar(&o.enqueue, "enqueue", 4*time.Second, "how long to enqueue")
	flag.IntVar(&o.tenants, "tenants", 20, "how many tenants the events are enqueued for")
	flag.IntVar(&o.latency, "latency", 200, "events sent one by one")
	flag.DurationVar(&o.mixed, "mixed", 5*time.Second, "how long to enqueue and drain at once")
	flag.IntVar(&o.finished, "finished", 5_000_000, "finished deliveries in the tables of the part backlog")
	flag.IntVar(&o.future, "future", 1_000_000, "deliveries due next week beside them")
	flag.IntVar(&o.scheduled, "scheduled", 5000, "deliveries with a time of their own in the part scheduled")
	flag.DurationVar(&o.scheduledFor, "scheduled-for", 20*time.Second, "how long their times are spread over, beside ordinary traffic")
	flag.IntVar(&o.scheduledFuture, "scheduled-future", 200_000, "deliveries due in three days that are to slow nothing")
	flag.DurationVar(&o.snapshot, "snapshot", 2*time.Minute, "how long to hold a snapshot open")
	flag.IntVar(&o.steady, "steady", 20, "drains in a row")
	flag.DurationVar(&o.fair, "fair", 15*time.Second, "how long quick endpoints are watched beside one that hangs")
	flag.IntVar(&o.fairRate, "fair-rate", 1000, "deliveries a second to the quick endpoints")
	flag.IntVar(&o.fairDue, "fair-due", 10_000, "deliveries due to the endpoint that hangs")
	flag.IntVar(&o.memoryDue, "memory-due", 100_000, "due deliveries whose drain's memory is measured")
	flag.IntVar(&o.two, "two", 10_000, "deliveries drained by one process and by two")
	flag.IntVar(&o.retention, "retention", 10_000_000, "attempts of the part retention, over 40 days, of which 10 are over")
	flag.IntVar(&o.pages, "pages", 4_000_000, "deliveries in the tables of the part pages, with a quarter more attempts")
	flag.Parse()
	o.database = os.Getenv(databaseVariable)
	return o
}

const databaseVariable = "POSTRIDER_TEST_DATABASE_URL"

func run(ctx context.Context, o options) error {
	if o.database == "" {
		return fmt.Errorf("%s is not set: use make bench", databaseVariable)
	}
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	w, err := newWorld(ctx, o.database, o.tenants)
	if err != nil {
		return err
	}
	b := &bench{options: o, w: w}
	defer b.close()
	if o.folder != "" {
		return b.writeProfiles(ctx)
	}
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
	t := &table{}
	if err := b.measure(ctx, chosen, t); err != nil {
		return err
	}
	t.print(os.Stdout)
	if o.json != "" {
		return t.write(o.json)
	}
	return nil
}
