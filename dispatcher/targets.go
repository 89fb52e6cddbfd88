package dispatcher

import (
	"context"
	"sync"
	"time"

	"github.com/postrider/postrider/subscriptions"
)

// targetsMaxAge bounds how long a change of an endpoint's URL, secret, headers or status can go unseen: CONTRACT and
// issue say a second.
const targetsMaxAge = time.Second

// targets remembers endpoints for a second, so that a backlog does not read each of them again for each delivery.
type targets struct {
	load func(ctx context.Context, shard int16, endpoints []int64) (map[int64]subscriptions.Target, error)

	mu    sync.Mutex
	known map[laneKey]knownTarget
}

type knownTarget struct {
	target subscriptions.Target
	read   time.Time // by this process's monotonic clock, taken before the read
}

// fresh gives the endpoints as they were at most a second ago, reading those it does not know, bucket by bucket. An
// endpoint that is not in the answer does not exist.
func (t *targets) fresh(ctx context.Context, keys []laneKey) (map[laneKey]subscriptions.Target, error) {
	now := time.Now()
	out := make(map[laneKey]subscriptions.Target, len(keys))
	missing := map[int16][]int64{}
	t.mu.Lock()
	for _, key := range keys {
		if known, ok := t.known[key]; ok && now.Sub(known.read) < targetsMaxAge {
			out[key] = known.target
		} else {
			missing[key.shard] = append(missing[key.shard], key.endpoint)
		}
	}
	t.mu.Unlock()
	for shard, endpoints := range missing {
		loaded, err := t.load(ctx, shard, endpoints)
		if err != nil {
			return nil, err
		}
		t.mu.Lock()
		for endpoint, target := range loaded {
			key := laneKey{shard, endpoint}
			t.known[key] = knownTarget{target, now}
			out[key] = target
		}
		t.mu.Unlock()
	}
	return out, nil
}

// slots gives how many deliveries of an endpoint may be in flight: its own figure where it is known and set.
func (t *targets) slots(key laneKey, byDefault int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.known[key]; ok && known.target.MaxInFlight > 0 {
		return known.target.MaxInFlight
	}
	return byDefault
}

// forget makes the next look read the endpoint again: its status has just been changed from here.
func (t *targets) forget(key laneKey) {
	t.mu.Lock()
	delete(t.known, key)
	t.mu.Unlock()
}

// sweep drops what is too old to be used, so that memory follows the endpoints in use.
func (t *targets) sweep() {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, known := range t.known {
		if now.Sub(known.read) >= targetsMaxAge {
			delete(t.known, key)
		}
	}
}
