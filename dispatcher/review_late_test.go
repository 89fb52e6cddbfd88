package dispatcher

import (
	"context"
	"net/http"
	"testing"
	"time"
)

// What could be sent and is not is late; what cannot be, for whatever reason, is not.
func TestLateIsWhatCouldBeSent(t *testing.T) {
	t.Parallel()
	const bound = 2 * time.Minute
	for name, c := range map[string]struct {
		group int64
		sql   string // of the endpoint $1
		late  bool
	}{
		"due":                      {late: true},
		"of a group":               {group: 7, late: true},
		"disabled":                 {sql: `UPDATE endpoints SET status = 'disabled', status_reason = 'disabled_by_user' WHERE id = $1`},
		"just enabled":             {sql: `UPDATE endpoints SET status_changed_at = '2026-11-30T12:01:00Z' WHERE id = $1`},
		"with a rate limit":        {sql: `UPDATE endpoints SET rate_limit = 1, rate_per_ms = 1000 WHERE id = $1`},
		"behind a breaker":         {sql: `INSERT INTO endpoint_pace (shard, endpoint_id, breaker, trips, breaker_until, breaker_changed_at) SELECT shard, id, 'open', 1, created_at, created_at FROM endpoints WHERE id = $1`},
		"behind one just closed":   {sql: `INSERT INTO endpoint_pace (shard, endpoint_id, breaker_changed_at) SELECT shard, id, '2026-11-30T12:01:00Z' FROM endpoints WHERE id = $1`},
		"paused":                   {sql: `INSERT INTO endpoint_pace (shard, endpoint_id, paused_until) SELECT shard, id, '2026-11-30T12:05:00Z' FROM endpoints WHERE id = $1`},
		"paused once":              {sql: `INSERT INTO endpoint_pace (shard, endpoint_id, paused_until) SELECT shard, id, created_at FROM endpoints WHERE id = $1`, late: true},
		"not due yet":              {sql: `UPDATE deliveries SET next_retry_at = '2026-11-30T12:02:30Z' WHERE endpoint_id = $1`},
		"somebody is at it":        {sql: `UPDATE deliveries SET state = 'in_flight', attempts = 1, lease_owner = 1, leased_until = '2026-11-30T13:00:00Z' WHERE id = (SELECT min(id) FROM deliveries WHERE endpoint_id = $1)`},
		"somebody was, who is not": {sql: `UPDATE deliveries SET state = 'in_flight', attempts = 1, lease_owner = 1, leased_until = '2026-11-30T12:01:00Z' WHERE id = (SELECT min(id) FROM deliveries WHERE endpoint_id = $1)`, late: true},
		"the head waits":           {group: 7, sql: `UPDATE deliveries SET next_retry_at = '2026-11-30T13:00:00Z' WHERE id = (SELECT min(id) FROM deliveries WHERE endpoint_id = $1)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			e := w.endpoint()
			w.enqueueIn(c.group, e, "a")
			w.enqueueIn(c.group, e, "b")
			w.enqueueLike(NewDelivery{Pull: true}, w.endpoint(), "fetched")
			if c.sql != "" {
				if _, err := w.db.Exec(t.Context(), c.sql, e.N); err != nil {
					t.Fatal(err)
				}
			}
			w.advance(bound + time.Second)
			got, err := w.d.deps.Desk.LateSince(t.Context(), w.clock().Add(-bound))
			if err != nil || (got != nil) != c.late || got != nil && (got.Endpoint != e || !got.Since.Equal(noon)) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// A dispatcher whose loops go round does not stand still, nor does one that has not begun or is over.
func TestADispatcherAtWorkDoesNotStandStill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(*http.Request) (*http.Response, error) { return nil, http.ErrServerClosed })
	if got := w.d.Still(); got.Turned != 0 || got.Worked != 0 {
		t.Errorf("not begun: %+v", got)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.d.Run(ctx) }()
	e := w.endpoint()
	dlv := w.enqueue(e, "x")
	w.d.Wake(e.Shard)
	for tried := false; !tried; {
		got, err := w.d.deps.Desk.Get(t.Context(), dlv)
		if err != nil {
			t.Fatal(err)
		}
		tried = got.LastOutcome != nil
	}
	if got := w.d.Still(); got.Worked > 5*time.Second {
		t.Errorf("at work: %+v", got)
	}
	stop()
	<-done
	if got := w.d.Still(); got.Turned != 0 || got.Worked != 0 {
		t.Errorf("over: %+v", got)
	}
}
