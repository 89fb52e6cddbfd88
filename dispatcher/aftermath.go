package dispatcher

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// aftermath is what a batch of attempts in one bucket means for endpoints and their alerts. Results count in the order
// in which they came: a success ends what failures before it began, and not what comes after.
type aftermath struct {
	order  []int64 // endpoints, as they first appear
	health map[int64]*subscriptions.Health
	well   map[int64]bool           // endpoints that took something, which resolves their alerts
	before map[int64]*alert.Finding // raised before the endpoint's last success in the batch
	after  map[int64]*alert.Finding // raised since
	paces  []subscriptions.PaceChange
}

// troubleSQL finds those of the endpoints that a success changes something for: they have failed since the last one, or have an
// alert. Indexes endpoints_failing and alerts_open_key, which have few of all.
const troubleSQL = `
SELECT x.shard, x.id FROM unnest(@shards::smallint[], @endpoints::bigint[]) AS x(shard, id)
 WHERE (SELECT true FROM endpoints e WHERE e.shard = x.shard AND e.id = x.id AND e.failing_since IS NOT NULL LIMIT 1)
    OR (SELECT true FROM alerts a WHERE a.shard = x.shard AND a.endpoint_id = x.id AND a.state <> 'resolved' LIMIT 1)`

// queueTrouble asks which endpoints are in trouble: those that the database says are, and those that failed in this very batch.
func queueTrouble(b *pgx.Batch, results []result, trouble map[id.ID]bool) {
	var shards []int16
	var endpoints []int64
	asked := map[id.ID]bool{}
	for _, r := range results {
		endpoint := r.claimed.endpoint()
		switch {
		case r.outcome != Succeeded:
			trouble[endpoint] = true
		case !asked[endpoint]:
			asked[endpoint] = true
			shards, endpoints = append(shards, endpoint.Shard), append(endpoints, endpoint.N)
		}
	}
	if len(endpoints) == 0 {
		return
	}
	b.Queue(troubleSQL, pgx.StrictNamedArgs{"shards": shards, "endpoints": endpoints}).Query(func(rows pgx.Rows) error {
		var endpoint id.ID
		_, err := pgx.ForEachRow(rows, []any{&endpoint.Shard, &endpoint.N}, func() error {
			trouble[endpoint] = true
			return nil
		})
		return err //nolint:wrapcheck // wrapped by record
	})
}

// queueAftermath queues what results mean beside their own deliveries, in the transaction that records them.
// A success of an endpoint that is in no trouble means nothing.
//
// closed hears of each endpoint whose status changed with it.
func (d *Dispatcher) queueAftermath(
	b *pgx.Batch, shard int16, results []result, trouble map[id.ID]bool, now time.Time, closed func(audit.Entry),
) {
	a := aftermath{
		health: map[int64]*subscriptions.Health{}, well: map[int64]bool{}, before: map[int64]*alert.Finding{}, after: map[int64]*alert.Finding{},
	}
	for _, r := range results {
		if r.decision.State == StateSucceeded && r.decision.Endpoint == EndpointStays && r.claimed.turn.IsZero() && !r.claimed.past && !trouble[r.claimed.endpoint()] {
			continue
		}
		a.add(r, d.cfg.AlertAfterFailures)
		a.slow(d.paceChange(r))
	}
	if len(a.order) == 0 {
		return
	}
	healths := make([]subscriptions.Health, 0, len(a.order))
	var recovered []int64
	var before, after []alert.Finding
	for _, endpoint := range a.order {
		if h := a.health[endpoint]; h.Recovered || h.Failures > 0 || h.Status != "" {
			healths = append(healths, *h)
		}
		if a.well[endpoint] {
			recovered = append(recovered, endpoint)
		}
		if f := a.before[endpoint]; f != nil {
			before = append(before, *f)
		}
		if f := a.after[endpoint]; f != nil {
			after = append(after, *f)
		}
	}
	subscriptions.QueueHealth(b, shard, healths, now, closed)
	subscriptions.QueuePace(b, shard, a.paces, now)
	if len(before) > 0 {
		alert.QueueRaise(b, shard, before, d.deps.IDs.Next, now)
	}
	if len(recovered) > 0 {
		alert.QueueResolve(b, shard, recovered, d.deps.IDs.Next, now)
	}
	if len(after) > 0 {
		alert.QueueRaise(b, shard, after, d.deps.IDs.Next, now)
	}
}

// add takes in one result. What no receiver had a part in (a lost or interrupted attempt, a claim without one) says
// nothing about an endpoint; a delivery that was parked is told of all the same.
func (a *aftermath) add(r result, afterFailures int) {
	if r.outcome == Unknown && !r.decision.State.Finished() {
		return
	}
	endpoint := r.claimed.EndpointID
	h := a.health[endpoint]
	if h == nil {
		h = &subscriptions.Health{Endpoint: endpoint}
		a.health[endpoint] = h
		a.order = append(a.order, endpoint)
	}
	if r.outcome == Succeeded {
		a.well[endpoint] = true
		a.settle(endpoint)
	}
	if r.claimed.Origin != replayed {
		count(h, r)
	}
	switch r.decision.Endpoint {
	case EndpointDead:
		h.Status, h.StatusReason, h.Version = subscriptions.Dead, r.decision.EndpointReason, r.target.Version
	case EndpointDisabled:
		if h.Status != subscriptions.Dead {
			h.Status, h.StatusReason, h.Version = subscriptions.Disabled, r.decision.EndpointReason, r.target.Version
			h.FailingSince = nil
			if r.decision.EndpointReason == disabledFailing {
				h.FailingSince = r.target.FailingSince // if a success has come since, the endpoint stays on
			}
		}
	case EndpointStays:
	}
	a.raise(r, afterFailures)
}

// count adds a result to its endpoint's health. A replay's is left out: what is long past and sent again, any number at
// once, is no measure of how the endpoint does.
func count(h *subscriptions.Health, r result) {
	switch r.outcome {
	case Unknown:
	case Succeeded:
		h.Recovered, h.Failures, h.LastError = true, 0, ""
	case Unauthorized, Gone, Retryable, Redirected, Rejected, Timeout, DNSError, ConnectError, TLSError, ProtocolError,
		Blocked:
		if h.Failures == 0 {
			h.FirstFailureAt = r.endedAt
		}
		h.Failures++
		h.LastError = text(explain(r.outcome, r.answer))
	}
}

// slow takes in what a result changes about its endpoint's pace. Of several, a probe's word on the breaker counts.
func (a *aftermath) slow(c subscriptions.PaceChange) {
	if !c.Open && !c.Reopen && !c.Close && c.PausedUntil.IsZero() {
		return
	}
	n := slices.IndexFunc(a.paces, func(known subscriptions.PaceChange) bool { return known.Endpoint == c.Endpoint })
	if n < 0 {
		a.paces = append(a.paces, c)
		return
	}
	known := &a.paces[n]
	known.PausedUntil = later(known.PausedUntil, c.PausedUntil)
	if c.Reopen || c.Close || c.Open && !known.Reopen && !known.Close {
		known.Open, known.Reopen, known.Close, known.Until = c.Open, c.Reopen, c.Close, c.Until
		known.Version = c.Version
	}
}

// settle moves what was raised so far behind the success that has just come.
func (a *aftermath) settle(endpoint int64) {
	f := a.after[endpoint]
	if f == nil {
		return
	}
	delete(a.after, endpoint)
	if earlier := a.before[endpoint]; earlier != nil {
		f.Count += earlier.Count
		f.Kind = max(f.Kind, earlier.Kind)
	}
	a.before[endpoint] = f
}

func (a *aftermath) raise(r result, afterFailures int) {
	failures := r.decision.Failures
	if r.outcome == Succeeded {
		failures = 0
	}
	kind, raised := alert.Evaluate(alert.Facts{
		Failures: failures, AfterFailures: afterFailures, Failed: r.decision.State == StateFailed,
		Unauthorized: r.outcome == Unauthorized, Blocked: r.outcome == Blocked, Gone: r.outcome == Gone,
		Disabled: r.decision.Endpoint == EndpointDisabled,
	})
	if !raised {
		return
	}
	endpoint := r.claimed.EndpointID
	f := a.after[endpoint]
	if f == nil {
		f = &alert.Finding{Endpoint: endpoint, Tenant: r.claimed.TenantID}
		a.after[endpoint] = f
	}
	f.Count++
	if kind >= f.Kind || f.Count == 1 {
		f.Kind, f.Detail = kind, finding(kind, r)
	}
	f.Delivery, f.At = r.claimed.ID, r.endedAt
}
