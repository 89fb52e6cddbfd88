package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	tenants   = 4
	producers = 8 // at a time
	groups    = 20
)

// producer enqueues events through the API and counts those that were accepted.
type producer struct {
	s        *server
	client   *http.Client
	mix      []kind // each as often as its share
	accepted atomic.Int64
	next     atomic.Int64
}

// newProducer makes the tenants, each with an endpoint of each kind.
func newProducer(ctx context.Context, s *server, r *receiver) (*producer, error) {
	p := &producer{s: s, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: producers}, Timeout: time.Minute}}
	for _, k := range kinds() {
		for range k.share {
			p.mix = append(p.mix, k)
		}
	}
	for i := range tenants {
		err := p.call(ctx, "/v1/tenants", map[string]any{"name": tenant(i), "uid": tenant(i)}, http.StatusCreated)
		if err != nil {
			return nil, err
		}
		for _, k := range kinds() {
			body := map[string]any{"url": r.url + "/" + k.name, "uid": k.name, "event_types": []string{k.name}}
			for name, value := range k.endpoint {
				body[name] = value
			}
			if err := p.call(ctx, "/v1/tenants/"+tenant(i)+"/endpoints", body, http.StatusCreated); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

func tenant(i int) string { return fmt.Sprintf("soak-%d", i) }

// run enqueues at that rate until ctx ends; what it has begun by then it finishes.
func (p *producer) run(ctx context.Context, rate float64) error {
	var wg sync.WaitGroup
	errs := make(chan error, producers)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for range producers {
		wg.Go(func() {
			tick := time.NewTicker(time.Duration(producers / rate * float64(time.Second)))
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				if err := p.enqueue(context.WithoutCancel(ctx), p.next.Add(1)); err != nil {
					errs <- err
					stop()
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return fmt.Errorf("enqueue: %w", err)
	default:
		return nil
	}
}

// pick gives the kind of the n-th event, in a stride that goes through the mix evenly.
func (p *producer) pick(n int64) kind {
	const stride = 61 // has no factor in common with the mix's length
	return p.mix[n*stride%int64(len(p.mix))]
}

// enqueue sends the n-th event.
func (p *producer) enqueue(ctx context.Context, n int64) error {
	k := p.pick(n)
	event := map[string]any{"type": k.name, "payload": json.RawMessage(payload(k.size, n))}
	if k.grouped {
		event["group_key"] = fmt.Sprintf("group %d", n%groups)
	}
	if err := p.call(ctx, "/v1/tenants/"+tenant(int(n)%tenants)+"/events", event, http.StatusAccepted); err != nil {
		return err
	}
	p.accepted.Add(1)
	return nil
}

// call posts to the API and wants that status.
func (p *producer) call(ctx context.Context, path string, body any, want int) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.s.base+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+p.s.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != want {
		return fmt.Errorf("%s: %d, want %d: %s", path, resp.StatusCode, want, said)
	}
	return nil
}
