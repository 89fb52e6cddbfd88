package dispatcher

import (
	"context"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// targetsMaxAge bounds how long a change of an endpoint's URL, secret, headers or status can go unseen.
const targetsMaxAge = time.Second

// targets remembers endpoints for a second, so that a backlog does not read each of them again for each delivery.
type targets struct {
	load func(context.Context, []id.ID) (map[id.ID]subscriptions.Target, error)

	mu        sync.Mutex
	known     map[id.ID]knownTarget
	forgotten int // how often something was forgotten: a read that it happened during may have seen what was before
}

type knownTarget struct {
	target subscriptions.Target
	read   time.Time // by this process's monotonic clock, taken before the read
}

// fresh gives the endpoints as they were at most a second ago, reading those it does not know so. One that is not in the
// answer does not exist.
func (t *targets) fresh(ctx context.Context, endpoints []id.ID) (map[id.ID]subscriptions.Target, error) {
	now := time.Now()
	out := make(map[id.ID]subscriptions.Target, len(endpoints))
	var missing []id.ID
	t.mu.Lock()
	forgotten := t.forgotten
	for _, endpoint := range endpoints {
		if known, ok := t.known[endpoint]; ok && now.Sub(known.read) < targetsMaxAge {
			out[endpoint] = known.target
		} else {
			missing = append(missing, endpoint)
		}
	}
	t.mu.Unlock()
	if len(missing) == 0 {
		return out, nil
	}
	loaded, err := t.load(ctx, missing)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for endpoint, target := range loaded {
		out[endpoint] = target
		if t.forgotten == forgotten {
			t.known[endpoint] = knownTarget{target, now}
		}
	}
	return out, nil
}

// forget makes the next look read the endpoint again: it has just been changed from here.
func (t *targets) forget(endpoint id.ID) {
	t.mu.Lock()
	t.forgotten++
	delete(t.known, endpoint)
	t.mu.Unlock()
}

// sweep drops what is too old to be used, so that memory follows the endpoints in use.
func (t *targets) sweep() {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for endpoint, known := range t.known {
		if now.Sub(known.read) >= targetsMaxAge {
			delete(t.known, endpoint)
		}
	}
}
