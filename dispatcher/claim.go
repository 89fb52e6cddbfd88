package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// inlinePayload is the largest payload, in bytes, that comes along with a claim; a larger one is read when its turn to
// be sent has come, so that a thousand of them do not sit in memory at once.
const inlinePayload = 64 << 10

// claimed is a delivery that this process holds the lease of, with what its event says.
type claimed struct {
	Shard       int16
	ID          int64
	TenantID    int64
	EventID     int64
	EndpointID  int64
	Attempts    int // the number of the attempt that the claim is for
	Failures    int
	Rescues     int
	EventType   *string // nil: the event is gone, which makes the delivery unsendable
	ContentType *string
	Size        *int
	Payload     []byte // nil when Size is above inlinePayload

	leaseEnds time.Time // by this process's monotonic clock
}

func (c claimed) delivery() id.ID { return id.ID{Shard: c.Shard, N: c.ID} }
func (c claimed) event() id.ID    { return id.ID{Shard: c.Shard, N: c.EventID} }
func (c claimed) endpoint() id.ID { return id.ID{Shard: c.Shard, N: c.EndpointID} }

// wish is how many due deliveries of one endpoint a claim may take.
type wish struct {
	endpoint int64
	slots    int
}

// claimSQL leases the oldest due deliveries of each wished-for endpoint, at most as many as it has free slots: never one
// queue for all, in which one endpoint's backlog would stand before everybody. Rows another dispatcher is just claiming
// are skipped. Index deliveries_due, per endpoint in order; then deliveries_pkey and events_pkey.
//
// The arrays and LIMIT 1 are there for the planner: they leave it no way but the index, whatever the statistics of a
// table say that goes from empty to a million rows and back.
const claimSQL = `
WITH due AS MATERIALIZED (
    SELECT l.id FROM unnest(@endpoints::bigint[], @slots::integer[]) AS w(endpoint_id, slots)
    CROSS JOIN LATERAL (
        SELECT d.id FROM deliveries d
         WHERE d.shard = @shard AND d.endpoint_id = w.endpoint_id AND d.state IN ('scheduled', 'pending')
           AND d.next_retry_at <= @now
         ORDER BY d.next_retry_at LIMIT w.slots FOR UPDATE SKIP LOCKED) l
), leased AS (
    UPDATE deliveries d SET state = 'in_flight', attempts = d.attempts + 1, lease_owner = @owner, leased_until = @until
     WHERE d.shard = @shard AND d.id = ANY (ARRAY(SELECT due.id FROM due))
    RETURNING d.id, d.tenant_id, d.event_id, d.endpoint_id, d.attempts, d.failures, d.rescues
)
SELECT l.id, l.tenant_id, l.event_id, l.endpoint_id, l.attempts, l.failures, l.rescues,
       e.type AS event_type, e.content_type, e.size, e.payload
  FROM leased l LEFT JOIN LATERAL (
       SELECT e.type, e.content_type, octet_length(e.payload) AS size,
              CASE WHEN octet_length(e.payload) <= @inline THEN e.payload END AS payload
         FROM events e WHERE e.shard = @shard AND e.id = l.event_id LIMIT 1) e ON true`

// claim takes leases in several buckets, in one round trip. What the database refuses in one bucket (a row that it cannot
// read, say) costs that bucket and not the others: then each is asked alone.
func (d *Dispatcher) claim(ctx context.Context, wishes map[int16][]wish) ([]claimed, error) {
	got, err := d.claimBatch(ctx, wishes)
	if err == nil || fault.Is(err, fault.Unavailable) || ctx.Err() != nil {
		return got, err
	}
	var failed error
	for shard, list := range wishes {
		some, err := d.claimBatch(ctx, map[int16][]wish{shard: list})
		if err != nil {
			failed = err
			d.sicken(shard, err)
		}
		got = append(got, some...)
	}
	if len(got) > 0 {
		return got, nil
	}
	return nil, failed
}

func (d *Dispatcher) claimBatch(ctx context.Context, wishes map[int16][]wish) ([]claimed, error) {
	ctx, cancel := context.WithTimeout(ctx, dbPatience)
	defer cancel()
	now := d.deps.Now()
	batch := &pgx.Batch{}
	var out []claimed
	for shard, list := range wishes {
		endpoints, slots := make([]int64, len(list)), make([]int32, len(list))
		for i, w := range list {
			endpoints[i], slots[i] = w.endpoint, int32(w.slots) //nolint:gosec // at most max_in_flight
		}
		batch.Queue(claimSQL, pgx.StrictNamedArgs{
			"shard": shard, "endpoints": endpoints, "slots": slots, "now": now, "owner": d.owner,
			"until": now.Add(d.cfg.Lease), "inline": inlinePayload,
		}).Query(func(rows pgx.Rows) error {
			got, err := pgx.CollectRows(rows, scanClaimed)
			for i := range got {
				got[i].Shard = shard
			}
			out = append(out, got...)
			return err //nolint:wrapcheck // wrapped below, once for all buckets
		})
	}
	if err := d.deps.DB.SendBatch(ctx, batch).Close(); err != nil {
		return nil, pg.Fault(fmt.Errorf("claim deliveries: %w", err))
	}
	return out, nil
}

// scanClaimed reads a row by position: it is the hottest read there is, and reading by name costs a look-up a column.
func scanClaimed(row pgx.CollectableRow) (claimed, error) {
	var c claimed
	err := row.Scan(&c.ID, &c.TenantID, &c.EventID, &c.EndpointID, &c.Attempts, &c.Failures, &c.Rescues,
		&c.EventType, &c.ContentType, &c.Size, &c.Payload)
	return c, err //nolint:wrapcheck // wrapped by claim
}

// payloadSQL reads what was too large to come with the claim. Index events_pkey.
const payloadSQL = `SELECT payload FROM events WHERE shard = @shard AND id = @id`

func (d *Dispatcher) loadPayload(ctx context.Context, event id.ID) ([]byte, error) {
	rows, err := d.deps.DB.Query(ctx, payloadSQL, pgx.StrictNamedArgs{"shard": event.Shard, "id": event.N})
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read a payload: %w", err))
	}
	payload, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read a payload: %w", err))
	}
	return payload, nil
}
