package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pg"
)

func (b *bench) measureEnqueue(ctx context.Context) ([]measurement, error) {
	inserts, err := b.w.singleInserts(ctx, b.enqueue)
	if err != nil {
		return nil, fmt.Errorf("single inserts: %w", err)
	}
	single, err := b.w.enqueue(ctx, b.enqueue, 1)
	if err != nil {
		return nil, fmt.Errorf("one by one: %w", err)
	}
	batches, err := b.w.enqueue(ctx, b.enqueue, 100)
	if err != nil {
		return nil, fmt.Errorf("in batches: %w", err)
	}
	return []measurement{
		{name: "  single-row inserts, 64 clients", got: inserts.rate, unit: "/s"},
		{name: "  single-row inserts, p99", got: inserts.p99, unit: "ms"},
		{name: "enqueue one by one, 64 clients / single-row inserts", got: single.rate / inserts.rate, unit: "×", want: atLeast(2)},
		{name: "enqueue p99 / single-row inserts' p99", got: single.p99 / inserts.p99, unit: "×", want: atMost(1)},
		{name: "enqueue in batches of 100 / single-row inserts", got: batches.rate / inserts.rate, unit: "×", want: atLeast(8)},
	}, nil
}

// singleInserts is what a producer could do by itself: one row, one durable commit, at the same concurrency, each client
// on a connection of its own.
func (w *world) singleInserts(ctx context.Context, long time.Duration) (throughput, error) {
	pool, err := pg.Open(ctx, w.url, clients)
	if err != nil {
		return throughput{}, err
	}
	defer pool.Close()
	const create = `CREATE TABLE IF NOT EXISTS bench_inserts (id bigint PRIMARY KEY, payload bytea NOT NULL)`
	if _, err := pool.Exec(ctx, create); err != nil {
		return throughput{}, err
	}
	defer func() { _, _ = pool.Exec(ctx, `DROP TABLE bench_inserts`) }()
	got, err := load(pace{Clients: clients, Long: long}, func(int, time.Time) error { return w.insert(ctx, pool) })
	return throughput{rate: got.Rate, p99: got.P99}, err
}

func (w *world) insert(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, `INSERT INTO bench_inserts VALUES ($1, $2)`, w.ids.Next(), w.payload)
	return err
}

// enqueue posts events through the HTTP API, per of them in a request; each answer comes after a durable commit. Each
// tenant has one endpoint that wants them, so each makes a delivery as well.
func (w *world) enqueue(ctx context.Context, long time.Duration, per int) (throughput, error) {
	got, err := w.loadAPI(ctx, w.enqueueOrder(per, pace{Clients: clients, Long: long}))
	if err != nil {
		return throughput{}, err
	}
	return throughput{rate: got.Rate * float64(per), p99: got.P99}, w.clear(ctx)
}

// enqueueOrder is what the load's process is told to send.
func (w *world) enqueueOrder(per int, p pace) order {
	o := order{Addr: w.apiAddr, Key: w.apiKey, Pace: p}
	const before = `{"type":"bench","payload":`
	o.Body = append(append([]byte(before), w.payload...), '}')
	o.Payload = len(before)
	suffix := ""
	if per > 1 {
		const list = `{"events":[`
		o.Body = append(append([]byte(list), bytes.Join(slices.Repeat([][]byte{o.Body}, per), []byte(","))...), "]}"...)
		o.Payload += len(list)
		suffix = ":batch"
	}
	for _, t := range w.enqueuers {
		o.Paths = append(o.Paths, eventsPath(t)+suffix)
	}
	return o
}

// pace says how load is made: by so many at once, for so long, after a tenth of it to warm up; with a rate, so many acts a
// second in all, each at its time whatever the ones before it took, else as fast as they go.
type pace struct {
	Clients int
	Long    time.Duration
	Rate    float64
}

// loaded is what came of it, but for the warm-up.
type loaded struct {
	Rate, P50, P99 float64 // acts a second; ms, from when an act was to begin to its end
	From, Until    time.Time
}

// load has the clients act. An act is told whose it is and when it was to begin.
func load(p pace, act func(client int, due time.Time) error) (loaded, error) {
	var mu sync.Mutex
	var took []time.Duration
	var first error
	var wg sync.WaitGroup
	start := time.Now()
	from := start.Add(p.Long / 10)
	until := from.Add(p.Long)
	for c := range p.Clients {
		wg.Go(func() {
			var mine []time.Duration
			var err error
			for n := 0; err == nil; n++ {
				due := p.due(start, c, n)
				if due.After(until) || time.Now().After(until) { // the latter: it does not keep the pace
					break
				}
				if err = act(c, due); due.After(from) {
					mine = append(mine, time.Since(due))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			if first == nil {
				first = err
			}
		})
	}
	wg.Wait()
	if first != nil || len(took) == 0 {
		return loaded{}, errors.Join(first, errNothing(len(took)))
	}
	return loaded{
		Rate: float64(len(took)) / p.Long.Seconds(), P50: quantile(took, 0.5), P99: quantile(took, 0.99),
		From: from, Until: until,
	}, nil
}

// due waits until a client's n-th act is to begin, and gives that moment: without a rate it is now.
func (p pace) due(start time.Time, client, n int) time.Time {
	if p.Rate <= 0 {
		return time.Now()
	}
	at := start.Add(time.Duration(float64(n*p.Clients+client) / p.Rate * float64(time.Second)))
	time.Sleep(time.Until(at))
	return at
}

func errNothing(n int) error {
	if n > 0 {
		return nil
	}
	return errors.New("nothing was done")
}
