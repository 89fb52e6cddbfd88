package dispatcher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// AckState is what an acknowledgement has come to. Its value is what the API shows.
type AckState string

// The states of acknowledgements.
const (
	Acknowledged AckState = "acknowledged" // now, or by this very token before
	AckLost      AckState = "lost"         // the lease is nobody's any more
	AckInvalid   AckState = "invalid"      // no token of this endpoint
)

// MaxAck is how many tokens may come at once.
const MaxAck = 1000

// Acked is the answer to one token.
type Acked struct {
	State    AckState
	Delivery id.ID  // zero if the token is invalid
	Detail   string // why it is not acknowledged, in plain words
}

// Ack finishes the deliveries whose leases the tokens name, and answers each token in its place. A lease that has ended counts
// as long as nobody has leased the delivery again; one that was acknowledged may be acknowledged again.
func (p *Pull) Ack(ctx context.Context, endpoint, tenant id.ID, tokens []string) ([]Acked, error) {
	now := p.d.deps.Now()
	out := make([]Acked, len(tokens))
	read := make([]result, len(tokens))
	latest := map[id.ID]result{} // of two tokens of one delivery only the later lease can still be somebody's
	for i, token := range tokens {
		r, err := p.marks.read(endpoint, tenant, token)
		if err != nil {
			out[i] = Acked{State: AckInvalid, Detail: err.Error()}
			continue
		}
		r.outcome, r.endedAt = Succeeded, now
		r.decision = Decision{State: StateSucceeded}
		r.answer.timings.total = max(now.Sub(id.TimeOf(r.owner)), 0)
		read[i] = r
		if known, twice := latest[r.claimed.delivery()]; !twice || known.claimed.Attempts < r.claimed.Attempts {
			latest[r.claimed.delivery()] = r
		}
	}
	fates, err := p.acknowledge(ctx, latest)
	if err != nil {
		return nil, err
	}
	for i, r := range read {
		if out[i].State == "" {
			out[i] = fates[r.claimed.delivery()].of(r)
		}
	}
	return out, nil
}

// acknowledge finishes what it can and says what has become of each delivery.
func (p *Pull) acknowledge(ctx context.Context, latest map[id.ID]result) (map[id.ID]fate, error) {
	all := slices.SortedFunc(maps.Values(latest), func(a, b result) int {
		return a.claimed.delivery().Compare(b.claimed.delivery())
	})
	fates := make(map[id.ID]fate, len(all))
	left, err := p.finishAll(ctx, all, fates)
	if err != nil || len(left) == 0 {
		return fates, err
	}
	late, err := p.retake(ctx, left)
	if err != nil {
		return nil, err
	}
	if _, err := p.finishAll(ctx, late, fates); err != nil {
		return nil, err
	}
	return fates, p.standings(ctx, left, fates)
}

// finishAll records what has been acknowledged, and gives those whose leases were nobody's any more.
func (p *Pull) finishAll(ctx context.Context, some []result, fates map[id.ID]fate) (left []result, err error) {
	if len(some) == 0 {
		return nil, nil
	}
	won, err := p.record(ctx, some)
	if err != nil {
		return nil, err
	}
	for _, r := range won {
		fates[r.claimed.delivery()] = fate{state: StateSucceeded.String(), attempts: r.claimed.Attempts}
	}
	for _, r := range some {
		if _, done := fates[r.claimed.delivery()]; !done {
			left = append(left, r)
		}
	}
	return left, nil
}

// retakeSQL leases once more, to the very lease that has ended, what nobody has leased since: it waits with the number of that
// attempt, and its last one came to nothing for want of an acknowledgement. What was finished and then sent again by hand
// waits too, but not for this. The same acknowledgement, made twice at once, may have leased it just before. Index deliveries_pkey.
const retakeSQL = `
WITH mine AS MATERIALIZED (
    SELECT d.shard, d.id, r.lease FROM unnest(@ids::bigint[], @leases::bigint[], @attempts::integer[]) AS r(id, lease, attempt)
     CROSS JOIN LATERAL (
        SELECT d.shard, d.id FROM deliveries d
         WHERE d.shard = @shard AND d.id = r.id AND d.lane = @pull AND d.attempts = r.attempt
           AND (d.state = 'pending' AND d.last_outcome = 'timeout' OR d.lease_owner = r.lease)
         ORDER BY d.id LIMIT 1 FOR UPDATE) d
)
UPDATE deliveries d SET state = 'in_flight', lease_owner = m.lease, leased_until = @until
  FROM mine m WHERE d.shard = m.shard AND d.id = m.id
RETURNING d.id`

// retake gives those that were leased once more. Their attempts are recorded as further ones: history has the end of the lease.
func (p *Pull) retake(ctx context.Context, late []result) (mine []result, err error) {
	var shard int16
	var ids, leases []int64
	var attempts []int32
	for _, r := range late {
		shard = r.claimed.Shard
		ids, leases = append(ids, r.claimed.ID), append(leases, r.owner)
		attempts = append(attempts, int32(r.claimed.Attempts)) //nolint:gosec // came from an integer
	}
	var taken []int64
	err = p.query(context.WithoutCancel(ctx), retakeSQL, pgx.StrictNamedArgs{
		"shard": shard, "ids": ids, "leases": leases, "attempts": attempts, "pull": lanePull,
		"until": p.d.deps.Now().Add(retakeLease),
	}, func(rows pgx.Rows) (err error) {
		taken, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("lease again what was acknowledged late: %w", err))
	}
	for _, r := range late {
		if slices.Contains(taken, r.claimed.ID) {
			r.attemptID = p.d.deps.IDs.Next()
			mine = append(mine, r)
		}
	}
	return mine, nil
}

// retakeLease is how long an acknowledgement has that came late; it is recorded at once.
const retakeLease = time.Minute

// fate is how a delivery stands whose token came.
type fate struct {
	state    string // delivery_state; "": it is not there any more
	reason   string
	attempts int
}

// of is what that means to a token.
func (f fate) of(r result) Acked {
	a := Acked{State: AckLost, Delivery: r.claimed.delivery()}
	switch {
	case f.state == StateSucceeded.String() && f.attempts == r.claimed.Attempts:
		a.State = Acknowledged
	case f.state == "":
		a.Detail = "the delivery is not kept any more"
	case f.state == StateCancelled.String(), f.state == StateFailed.String():
		a.Detail = "the delivery is " + f.state + " (" + f.reason + ")"
	case f.state == InFlight.String(), f.attempts > r.claimed.Attempts:
		a.Detail = "the lease ended, and the delivery was fetched again"
	default:
		a.Detail = "the delivery was put back since"
	}
	return a
}

// Indexes deliveries_pkey, deliveries_finished_pkey.
const fatesSQL = `
SELECT n.id, x.state::text, coalesce(x.reason, ''), x.attempts FROM unnest(@ids::bigint[]) AS n(id) CROSS JOIN LATERAL (
    (SELECT d.state, NULL::text AS reason, d.attempts FROM deliveries d WHERE d.shard = @shard AND d.id = n.id LIMIT 1)
    UNION ALL
    (SELECT f.state, f.reason, f.attempts FROM deliveries_finished f WHERE f.shard = @shard AND f.id = n.id LIMIT 1)) x`

// standings looks up how the rest stand.
func (p *Pull) standings(ctx context.Context, left []result, fates map[id.ID]fate) error {
	dlv := id.ID{Shard: left[0].claimed.Shard}
	var ids []int64
	for _, r := range left {
		if _, known := fates[r.claimed.delivery()]; !known {
			ids = append(ids, r.claimed.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	err := p.query(ctx, fatesSQL, pgx.StrictNamedArgs{"shard": dlv.Shard, "ids": ids}, func(rows pgx.Rows) error {
		var f fate
		_, err := pgx.ForEachRow(rows, []any{&dlv.N, &f.state, &f.reason, &f.attempts}, func() error {
			fates[dlv] = f
			return nil
		})
		return err //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return pg.Fault(fmt.Errorf("look at what was acknowledged: %w", err))
	}
	return nil
}
