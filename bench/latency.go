package main

import (
	"context"
	"sync"
	"time"

	"github.com/postrider/postrider/signer"
)

func (b *bench) measureLatency(ctx context.Context) ([]measurement, error) {
	base, got, err := b.w.latency(ctx, b.latency)
	if err != nil {
		return nil, err
	}
	return []measurement{
		{name: "  one commit + one POST, p50", got: base.p50, unit: "ms"},
		{name: "  one commit + one POST, p99", got: base.p99, unit: "ms"},
		{name: "enqueue to first byte p50 / one commit + one POST", got: got.p50 / base.p50, unit: "×", want: atMost(3)},
		{name: "enqueue to first byte p99 / one commit + one POST", got: got.p99 / base.p99, unit: "×", want: atMost(5)},
	}, nil
}

type percentiles struct{ p50, p99 float64 } // ms

// latency sends events one at a time with nothing else going on, and gives how long each takes from the request to its
// first byte at the receiver; and, turn about with it, one durable commit plus one POST, which no sender can do without.
func (w *world) latency(ctx context.Context, n int) (base, got percentiles, err error) {
	if base, got, err = w.latencyKept(ctx, n); err != nil {
		return base, got, err
	}
	return base, got, w.clear(ctx)
}

// latencyKept is latency, and leaves what it made.
func (w *world) latencyKept(ctx context.Context, n int) (base, got percentiles, err error) {
	secret, err := signer.ParseSecret(signer.Standard, benchSecret)
	if err != nil {
		return base, got, err
	}
	stop := sync.OnceFunc(w.startDispatcher())
	defer stop()
	o := w.enqueueOrder(1, pace{})
	producer, err := newPoster(o, o.Paths[0])
	if err != nil {
		return base, got, err
	}
	defer producer.conn.Close()

	var bases, gots []time.Duration
	for i := range n + 10 {
		took, err := w.commitAndPost(ctx, secret)
		if err != nil {
			return base, got, err
		}
		whole, err := w.timeOne(ctx, producer)
		if err != nil {
			return base, got, err
		}
		if i >= 10 { // the first ones open connections
			bases, gots = append(bases, took), append(gots, whole)
		}
	}
	base = percentiles{quantile(bases, 0.5), quantile(bases, 0.99)}
	got = percentiles{quantile(gots, 0.5), quantile(gots, 0.99)}
	stop() // what it still has to record would come after a clearing
	return base, got, nil
}

func (w *world) commitAndPost(ctx context.Context, secret signer.Secret) (time.Duration, error) {
	const query = `INSERT INTO bench_commits VALUES ($1, $2)`
	const create = `CREATE TABLE IF NOT EXISTS bench_commits (id bigint PRIMARY KEY, payload bytea NOT NULL)`
	if _, err := w.db.Exec(ctx, create); err != nil {
		return 0, err
	}
	begun := time.Now()
	if _, err := w.db.Exec(ctx, query, w.ids.Next(), w.payload); err != nil {
		return 0, err
	}
	if err := w.post(ctx, secret); err != nil {
		return 0, err
	}
	return time.Since(begun), nil
}

// timeOne enqueues one event and waits for it to arrive. Both clocks are this machine's.
func (w *world) timeOne(ctx context.Context, producer *poster) (time.Duration, error) {
	before, err := w.receiver.number(ctx, "/count")
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := producer.post(begun); err != nil {
		return 0, err
	}
	if err := w.receiver.await(ctx, before+1, 10*time.Second); err != nil {
		return 0, err
	}
	at, err := w.receiver.number(ctx, "/last")
	if err != nil {
		return 0, err
	}
	return time.Unix(0, at).Sub(begun), nil
}
