package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// errUnacknowledged is why an attempt failed that was fetched and then not heard of.
var errUnacknowledged = errors.New("it was fetched, and not acknowledged before its lease ended")

// lapsed is what becomes of a delivery whose lease ended without a word: the attempt counts as failed, as one does whose
// receiver gives no answer in time, and the delivery is due at once. It goes behind what is due already, so that one which its
// owner stumbles over does not keep all the others from him. It is never given up for that: nobody is worn out by what he
// fetches himself.
//
// Its attempt has a number of its own, not the lease's: that is for the acknowledgement, which may come late.
func lapsed(r result) result {
	r.signedAt = id.TimeOf(r.owner).Unix()
	r.outcome, r.answer = Timeout, answer{err: errUnacknowledged}
	r.decision = Decision{
		State: Pending, NextAt: r.endedAt, Failures: r.claimed.Failures + 1, Rescues: r.claimed.Rescues,
	}
	return r
}

// lapsedSQL finds the leases of one endpoint that have ended, as lostSQL does those of all, and as harmlessly. Indexes
// deliveries_due, endpoints_pkey.
const lapsedSQL = lostHead + `
  FROM ` + pullFront + `
  LEFT JOIN endpoints e ON e.shard = d.shard AND e.id = d.endpoint_id
 WHERE d.state = 'in_flight' AND d.leased_until < @now`

// lapse puts back what was fetched from an endpoint and not acknowledged in time. A rescue does so as well, where a dispatcher
// runs.
func (p *Pull) lapse(ctx context.Context, endpoint id.ID, now time.Time) error {
	var lost []result
	err := p.query(ctx, lapsedSQL, frontOf(endpoint, now), func(rows pgx.Rows) (err error) {
		lost, err = pgx.CollectRows(rows, p.d.readLost(now))
		return err //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return pg.Fault(fmt.Errorf("look for leases that have ended: %w", err))
	}
	if len(lost) == 0 {
		return nil
	}
	_, err = p.record(ctx, lost)
	return err
}

// record writes results down and tells of them.
func (p *Pull) record(ctx context.Context, results []result) (won []result, err error) {
	// Whoever asked may give up: what has been begun is recorded all the same, with what is told of it.
	won, err = p.d.book(context.WithoutCancel(ctx), results, false)
	if err != nil {
		return nil, pg.Fault(err)
	}
	p.d.tally(results, won)
	for _, r := range won {
		if !r.noAttempt {
			p.d.deps.Metrics.Attempt(r.outcome.String(), 0, 0) // how long its owner had it is no measure of a receiver
		}
		if r.decision.State == StateSucceeded && r.claimed.Origin != replayed {
			p.d.deps.Metrics.Delivered(p.d.deps.Now().Sub(id.TimeOf(r.claimed.EventID)))
		}
		p.d.logResult(r)
	}
	return won, nil
}
