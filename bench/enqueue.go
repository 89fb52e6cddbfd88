package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pg"
)

// singleInserts is what a producer could do by itself: one row, one durable commit, at the same concurrency, each client
// on a connection of its own.
func (w *world) singleInserts(ctx context.Context, long time.Duration) (throughput, error) {
	cfg := w.db.Config().ConnString()
	pool, err := pg.Open(ctx, cfg, clients)
	if err != nil {
		return throughput{}, err
	}
	defer pool.Close()
	const create = `CREATE TABLE IF NOT EXISTS bench_inserts (id bigint PRIMARY KEY, payload bytea NOT NULL)`
	if _, err := pool.Exec(ctx, create); err != nil {
		return throughput{}, err
	}
	defer func() { _, _ = pool.Exec(ctx, `DROP TABLE bench_inserts`) }()
	return load(long, 1, func() error { return w.insert(ctx, pool) })
}

func (w *world) insert(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, `INSERT INTO bench_inserts VALUES ($1, $2)`, w.ids.Next(), w.payload)
	return err
}

// enqueue posts events through the HTTP API, per of them in a request; each answer comes after a durable commit. The
// tenant has one endpoint that wants them, so each makes a delivery as well.
func (w *world) enqueue(ctx context.Context, long time.Duration, per int) (throughput, error) {
	path := "/v1/tenants/" + tenantID(w.enqueuer) + "/events"
	body := append(append([]byte(`{"type":"bench","payload":`), w.payload...), '}')
	if per > 1 {
		path += ":batch"
		events := slices.Repeat([][]byte{body}, per)
		body = append(append([]byte(`{"events":[`), bytes.Join(events, []byte(","))...), "]}"...)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients, MaxConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	got, err := load(long, per, func() error { return w.postAPI(ctx, client, path, body) })
	return got, errors.Join(err, w.clear(ctx))
}

func (w *world) postAPI(ctx context.Context, client *http.Client, path string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.apiURL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+w.apiKey)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("status %d: %s", resp.StatusCode, answer)
	}
	return nil
}

// load has the clients act for a while, after a tenth of it to warm up, and gives the rate in events and the p99.
func load(long time.Duration, per int, act func() error) (throughput, error) {
	var mu sync.Mutex
	var took []time.Duration
	var first error
	var wg sync.WaitGroup
	warm := time.Now().Add(long / 10)
	end := warm.Add(long)
	for range clients {
		wg.Go(func() {
			var mine []time.Duration
			for {
				begun := time.Now()
				if begun.After(end) {
					break
				}
				if err := act(); err != nil {
					mu.Lock()
					first = err
					mu.Unlock()
					return
				}
				if begun.After(warm) {
					mine = append(mine, time.Since(begun))
				}
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	if first != nil || len(took) == 0 {
		return throughput{}, errors.Join(first, errNothing(len(took)))
	}
	return throughput{rate: float64(len(took)*per) / long.Seconds(), p99: quantile(took, 0.99)}, nil
}

func errNothing(n int) error {
	if n > 0 {
		return nil
	}
	return errors.New("nothing was done")
}

// quantile gives the q-quantile in milliseconds, and sorts d.
func quantile(d []time.Duration, q float64) float64 {
	slices.Sort(d)
	return float64(d[min(int(float64(len(d))*q), len(d)-1)]) / float64(time.Millisecond)
}
