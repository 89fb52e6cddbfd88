package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

type percentiles struct{ p50, p99 float64 } // ms

func tenantID(t subscriptions.Tenant) string { return id.Tenant.Format(t.ID) }

// latency sends events one at a time with nothing else going on, and gives how long each takes from the request to its
// first byte at the receiver; and, turn about with it, one durable commit plus one POST, which no sender can do without.
func (w *world) latency(ctx context.Context, n int) (base, got percentiles, err error) {
	secret, err := signer.ParseSecret(signer.Standard, benchSecret)
	if err != nil {
		return base, got, err
	}
	stop := sync.OnceFunc(w.startDispatcher())
	defer stop()
	client := &http.Client{}
	defer client.CloseIdleConnections()
	body := append(append([]byte(`{"type":"bench","payload":`), w.payload...), '}')
	path := "/v1/tenants/" + tenantID(w.enqueuer) + "/events"

	var bases, gots []time.Duration
	for i := range n + 10 {
		took, err := w.commitAndPost(ctx, secret)
		if err != nil {
			return base, got, err
		}
		whole, err := w.timeOne(ctx, client, path, body)
		if err != nil {
			return base, got, err
		}
		if i >= 10 { // the first ones open connections
			bases, gots = append(bases, took), append(gots, whole)
		}
	}
	base = percentiles{quantile(bases, 0.5), quantile(bases, 0.99)}
	got = percentiles{quantile(gots, 0.5), quantile(gots, 0.99)}
	stop() // what it still has to record would come after the clearing
	return base, got, w.clear(ctx)
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
func (w *world) timeOne(ctx context.Context, client *http.Client, path string, body []byte) (time.Duration, error) {
	before, err := w.receiver.number(ctx, "/count")
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := w.postAPI(ctx, client, path, body); err != nil {
		return 0, err
	}
	patience, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := w.receiver.await(patience, before+1); err != nil {
		return 0, fmt.Errorf("the event did not arrive: %w", err)
	}
	at, err := w.receiver.number(ctx, "/last")
	if err != nil {
		return 0, err
	}
	return time.Unix(0, at).Sub(begun), nil
}
