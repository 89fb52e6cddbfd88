package subscriptions_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

func TestEndpointsAreCountedByHowTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, other := w.tenant(), w.tenant()
	made := func(tenant subscriptions.Tenant, sql string) subscriptions.Endpoint {
		e, _ := w.endpoint(tenant, nil)
		if sql != "" {
			w.exec(sql, e.ID.Shard, e.ID.N)
		}
		return e
	}
	const (
		failing  = `UPDATE endpoints SET failing_since = '2026-11-30', consecutive_failures = 3 WHERE shard = $1 AND id = $2`
		disabled = `UPDATE endpoints SET status = 'disabled', status_reason = 'x' WHERE shard = $1 AND id = $2`
		dead     = `UPDATE endpoints SET status = 'dead', status_reason = 'gone', failing_since = '2026-11-30', consecutive_failures = 1
			WHERE shard = $1 AND id = $2`
		deleted = `UPDATE endpoints SET deleted_at = '2026-11-30' WHERE shard = $1 AND id = $2`
	)
	now := w.clock.now()
	made(mine, "")
	made(mine, deleted)
	made(mine, failing)
	made(mine, disabled)
	made(mine, dead)
	broken := made(mine, failing)
	asked := made(mine, "")
	deadBroken := made(mine, dead)
	for e, c := range map[id.ID]change{
		broken.ID:     {Endpoint: broken.ID.N, Open: true, Until: now.Add(time.Minute)},
		asked.ID:      {Endpoint: asked.ID.N, PausedUntil: now.Add(time.Minute)},
		deadBroken.ID: {Endpoint: deadBroken.ID.N, Open: true, Until: now.Add(time.Minute)},
	} {
		w.bookPace(e.Shard, c)
	}
	made(other, "")
	made(other, disabled)

	count := func(what string, tenant *id.ID, want subscriptions.EndpointCounts) {
		t.Helper()
		if got, err := w.CountEndpoints(t.Context(), tenant); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", what, got, err, want)
		}
	}
	of := subscriptions.EndpointCounts{Well: 1, Failing: 1, Paused: 2, Disabled: 1, Dead: 2}
	count("a tenant's", &mine.ID, of)
	count("another's", &other.ID, subscriptions.EndpointCounts{Well: 1, Disabled: 1})
	if of.All() != 7 {
		t.Errorf("all are %d", of.All())
	}
	w.clock.advance(2 * time.Minute) // the pause is over, the breaker is not until a probe went well
	count("later", &mine.ID, subscriptions.EndpointCounts{Well: 2, Failing: 1, Paused: 1, Disabled: 1, Dead: 2})

	fresh := w.under(sealKey) // one that does not rest from a count that took long
	if got, err := fresh.CountEndpoints(t.Context(), nil); err != nil || got != (subscriptions.EndpointCounts{Well: 3, Failing: 1, Paused: 1, Disabled: 2, Dead: 2}) {
		t.Errorf("of all: %+v, %v", got, err)
	}
}
