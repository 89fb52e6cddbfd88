package dispatcher

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

// inlinePayload is the largest payload, in bytes, that comes along with a claim; a larger one is read when its turn to
// be sent has come, so that a thousand of them do not sit in memory at once.
const inlinePayload = 64 << 10

// largePayloads bounds the memory, in bytes, for payloads too large to come with a claim.
const largePayloads = 128 << 20

// payload gives the body to send: what came with the claim, or, for a large one, what is read now, when there is memory
// for it. It waits for that no longer than the lease leaves time for the attempt itself.
func (d *Dispatcher) payload(ctx context.Context, c claimed, t *subscriptions.Target) (body []byte, release func(), err error) {
	if c.Size == nil || *c.Size <= inlinePayload {
		return c.Payload, func() {}, nil
	}
	ctx, cancel := context.WithDeadline(ctx, c.leaseEnds.Add(-d.timeout(t)-d.cfg.Lease/8))
	defer cancel()
	weight := min(int64(*c.Size), largePayloads)
	if err := d.memory.Acquire(ctx, weight); err != nil {
		return nil, nil, err //nolint:wrapcheck // the context's
	}
	body, err = readPayload(ctx, d.deps.DB, c.event())
	if err != nil {
		d.memory.Release(weight)
		return nil, nil, err
	}
	return body, func() { d.memory.Release(weight) }, nil
}

// Index events_pkey.
const payloadSQL = `SELECT payload FROM events WHERE shard = @shard AND id = @id`

// readPayload reads an event's payload: no row is an error.
func readPayload(ctx context.Context, db pg.Querier, event id.ID) ([]byte, error) {
	rows, err := db.Query(ctx, payloadSQL, pgx.StrictNamedArgs{"shard": event.Shard, "id": event.N})
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read a payload: %w", err))
	}
	payload, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read a payload: %w", err))
	}
	return payload, nil
}
