// Command soak runs the built program for a while against receivers of every kind, good and bad, under a steady load, and
// checks that it ends as it began: no memory, connection, goroutine or table has grown for good, and what became of every
// accepted event is known.
//
//	make soak
//	make soak SOAKFLAGS="-for 1m -rate 100"
//
// It wants a PostgreSQL of its own (make soak starts one) and sends to loopback only. It says how fast nothing is: that
// is bench's business.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

type options struct {
	program  string
	log      string
	long     time.Duration
	rate     float64
	patience time.Duration
	database string
}

func main() {
	var o options
	flag.StringVar(&o.program, "program", "bin/postrider", "the program to run")
	flag.StringVar(&o.log, "log", "bin/soak.log", "what the program logs goes into this `file`")
	flag.DurationVar(&o.long, "for", 10*time.Minute, "how long to enqueue")
	flag.Float64Var(&o.rate, "rate", 300, "events a second, of all kinds together")
	flag.DurationVar(&o.patience, "patience", 5*time.Minute, "how long the backlog may take to drain afterwards, and then everything to return")
	flag.Parse()
	o.database = os.Getenv("POSTRIDER_TEST_DATABASE_URL")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.database == "" {
		return errors.New("POSTRIDER_TEST_DATABASE_URL is not set: use make soak")
	}
	r, err := startReceiver()
	if err != nil {
		return err
	}
	defer r.close()
	s, err := startServer(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	watch, err := newWatch(ctx, s, o.database)
	if err != nil {
		return err
	}
	defer watch.close()
	p, err := newProducer(ctx, s, r)
	if err != nil {
		return err
	}
	if err := warmUp(ctx, p, watch, o.patience); err != nil {
		return err
	}
	began, err := watch.sample(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%8s  %s\n", "began", began)
	during, err := underLoad(ctx, o, p, watch)
	if err != nil {
		return err
	}
	r.recover() // an outage that ends: what is left has to come back and go
	begun := time.Now()
	if err := watch.awaitEmpty(ctx, o.patience); err != nil {
		return err
	}
	fmt.Printf("drained %s after the load ended\n", time.Since(begun).Round(time.Second))
	faults, err := account(ctx, watch.db, p, r)
	if err != nil {
		return err
	}
	returned, err := awaitReturn(ctx, watch, began, o.patience)
	if err != nil {
		return err
	}
	faults = append(append(faults, returned...), grown(during)...)
	for _, f := range faults {
		fmt.Println("NOT AS IT SHOULD BE:", f)
	}
	if len(faults) > 0 {
		return fmt.Errorf("%d things are not as they should be", len(faults))
	}
	fmt.Println("everything returned to where it began, and every event is accounted for")
	return nil
}

// warmUp sends a little of everything, so that what a process makes once and keeps is there when it is looked at first.
func warmUp(ctx context.Context, p *producer, w *watch, patience time.Duration) error {
	short, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := p.run(short, 50); err != nil {
		return err
	}
	return w.awaitEmpty(ctx, patience)
}

// underLoad enqueues, looks every few seconds, and says every half a minute what it sees.
func underLoad(whole context.Context, o options, p *producer, w *watch) (all []sample, err error) {
	ctx, cancel := context.WithTimeout(whole, o.long)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- p.run(ctx, o.rate) }()
	begun, said := time.Now(), time.Now()
	tick := time.NewTicker(min(5*time.Second, o.long/20))
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return all, errors.Join(err, whole.Err())
		case <-tick.C:
		}
		s, err := w.sample(ctx)
		if err != nil {
			if ctx.Err() != nil {
				continue
			}
			return all, err
		}
		all = append(all, s)
		if time.Since(said) >= min(30*time.Second, o.long/5) {
			said = time.Now()
			fmt.Printf("%8s  %s, %d accepted\n", time.Since(begun).Round(time.Second), s, p.accepted.Load())
		}
	}
}
