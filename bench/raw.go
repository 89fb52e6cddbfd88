package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
)

type throughput struct {
	rate  float64 // per second
	cpu   float64 // seconds of this process per 1,000
	pgCPU float64 // seconds of PostgreSQL's processes per 1,000
	wal   float64 // bytes of write-ahead log per delivery
	p99   float64 // ms
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
