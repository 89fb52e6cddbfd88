package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/signer"
)

// perEndpoint is how many due deliveries an endpoint has in a drain.
const perEndpoint = 50

type throughput struct {
	rate float64 // per second
	cpu  float64 // seconds of this process per 1,000
	wal  float64 // bytes of write-ahead log per delivery
	p99  float64 // ms
}

// rawPosts is the limit: the same client posts the same signed bodies over kept-alive connections, and nothing else.
func (w *world) rawPosts(ctx context.Context, n int) (throughput, error) {
	secret, err := signer.ParseSecret(signer.Standard, benchSecret)
	if err != nil {
		return throughput{}, err
	}
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	before, begun := cpuTime(), time.Now()
	for range senders {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				if err := w.post(ctx, secret); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(begun)
	if failed.Load() > 0 {
		return throughput{}, fmt.Errorf("%d POSTs failed", failed.Load())
	}
	return throughput{rate: float64(n) / took.Seconds(), cpu: (cpuTime() - before).Seconds() * 1000 / float64(n)}, nil
}

func (w *world) post(ctx context.Context, secret signer.Secret) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.receiver.url+"/raw", bytes.NewReader(w.payload))
	if err != nil {
		return err
	}
	headers, err := signer.Sign(signer.Standard, "", []signer.Secret{secret}, signer.Message{
		EventID: id.Event.Format(id.ID{N: w.ids.Next()}), Timestamp: time.Now().Unix(), Body: w.payload,
	})
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		req.Header[h.Name] = []string{h.Value}
	}
	resp, err := w.egress.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// drain makes n deliveries due and times how long a dispatcher takes until all are recorded.
func (w *world) drain(ctx context.Context, n int) (throughput, error) {
	if err := w.fill(ctx, n); err != nil {
		return throughput{}, err
	}
	walBefore, err := w.walPosition(ctx)
	if err != nil {
		return throughput{}, err
	}
	before, begun := cpuTime(), time.Now()
	stop := w.startDispatcher()
	for {
		var left int
		if err := w.db.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM deliveries LIMIT 1) x`).Scan(&left); err != nil {
			return throughput{}, err
		}
		if left == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	took, cpu := time.Since(begun), cpuTime()-before
	stop()
	walAfter, err := w.walPosition(ctx)
	if err != nil {
		return throughput{}, err
	}
	return throughput{
		rate: float64(n) / took.Seconds(), cpu: cpu.Seconds() * 1000 / float64(n),
		wal: float64(walAfter-walBefore) / float64(n),
	}, w.allSucceeded(ctx, n)
}

// fill makes n events with a delivery each, perEndpoint to an endpoint, and lets PostgreSQL write its pages out.
func (w *world) fill(ctx context.Context, n int) error {
	endpoints, err := w.endpointsFor(ctx, (n+perEndpoint-1)/perEndpoint)
	if err != nil {
		return err
	}
	const chunk = 1000
	for at := 0; at < n; at += chunk {
		err := pg.InTx(ctx, w.db, func(tx pgx.Tx) error {
			return w.fillChunk(ctx, tx, endpoints, at, min(chunk, n-at))
		})
		if err != nil {
			return err
		}
	}
	_, err = w.db.Exec(ctx, `VACUUM (ANALYZE) deliveries`)
	return err
}

func (w *world) fillChunk(ctx context.Context, tx pgx.Tx, endpoints []endpoint, at, n int) error {
	b := &pgx.Batch{}
	news := map[int16][]dispatcher.NewDelivery{}
	now := w.clock.Now()
	for i := at; i < at+n; i++ {
		e := endpoints[i%len(endpoints)]
		event := w.ids.Next()
		b.Queue(`INSERT INTO events (shard, id, tenant_id, type, content_type, payload, fan_out)
			VALUES ($1, $2, $3, 'bench', 'application/json', $4, 1)`, e.id.Shard, event, e.tenant.N, w.payload)
		news[e.id.Shard] = append(news[e.id.Shard], dispatcher.NewDelivery{
			ID: w.ids.Next(), Tenant: e.tenant.N, Event: event, Endpoint: e.id.N, DueAt: now,
		})
	}
	for shard, list := range news {
		dispatcher.QueueNew(b, shard, list)
	}
	return tx.SendBatch(ctx, b).Close()
}

// allSucceeded makes sure that the drain did what it is praised for, and clears up.
func (w *world) allSucceeded(ctx context.Context, n int) error {
	var done, attempts int
	err := w.db.QueryRow(ctx, `SELECT (SELECT count(*) FROM deliveries_finished WHERE state = 'succeeded'),
		(SELECT count(*) FROM attempts)`).Scan(&done, &attempts)
	if err != nil {
		return err
	}
	if done != n || attempts != n {
		return fmt.Errorf("%d of %d deliveries succeeded, %d attempts are kept", done, n, attempts)
	}
	return w.clear(ctx)
}

func (w *world) walPosition(ctx context.Context) (n int64, err error) {
	err = w.db.QueryRow(ctx, `SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint`).Scan(&n)
	return n, err
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
