package auth

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	usageEvery   = time.Minute
	usageTimeout = 5 * time.Second
)

// usage remembers when each key's use was last written. It grows with the number of keys, not with requests.
type usage struct {
	writing sync.WaitGroup

	mu     sync.Mutex
	noted  map[int64]time.Time
	closed bool
}

// seen takes over what the database says, so that a restart does not write each key's use at once.
func (u *usage) seen(key int64, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at.After(u.noted[key]) {
		u.noted[key] = at
	}
}

// due reports whether the use is to be written now. The caller that hears yes must write it and then call
// writing.Done.
func (u *usage) due(key int64, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed || now.Sub(u.noted[key]) < usageEvery {
		return false
	}
	u.noted[key] = now
	u.writing.Add(1)
	return true
}

func (u *usage) close(ctx context.Context) error {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	done := make(chan struct{})
	go func() { // ends at the latest when the writes' own time is over
		u.writing.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for API keys' last use to be written: %w", ctx.Err())
	}
}
