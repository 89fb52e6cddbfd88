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

	mu    sync.Mutex
	known map[id.ID]knownTarget
}

type knownTarget struct {
	target *subscriptions.Target // nil: forgotten at read, so that a read that began before may have seen what was before
	read   time.Time             // by this process's monotonic clock, taken before the read
}

// fresh gives the endpoints, in the order asked, as they were at most a second ago, reading those it does not know so. One
// that does not exist is nil. What it gives is shared: nobody may change it.
func (t *targets) fresh(ctx context.Context, endpoints []id.ID) ([]*subscriptions.Target, error) {
	now := time.Now()
	out := make([]*subscriptions.Target, len(endpoints))
	var missing []id.ID
	t.mu.Lock()
	for i, endpoint := range endpoints {
		if known, ok := t.known[endpoint]; ok && known.target != nil && now.Sub(known.read) < targetsMaxAge {
			out[i] = known.target
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
	for i, endpoint := range endpoints {
		target, there := loaded[endpoint]
		if !there {
			continue
		}
		out[i] = &target
		if known := t.known[endpoint]; known.target != nil || known.read.Before(now) {
			t.known[endpoint] = knownTarget{&target, now}
		}
	}
	return out, nil
}

// forget makes the next look read the endpoint again: it has just been changed from here.
func (t *targets) forget(endpoint id.ID) {
	t.mu.Lock()
	t.known[endpoint] = knownTarget{read: time.Now()}
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
