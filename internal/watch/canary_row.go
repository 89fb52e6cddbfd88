package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// canaryRow is the one row of the table canary.
type canaryRow struct {
	TenantShard *int16
	TenantID    *int64
	EndpointID  *int64
	URL         *string `db:"url"`
	Turn        int64
	StartedAt   *time.Time
	EventID     *int64
	AcceptedAt  *time.Time
	ReceivedAt  *time.Time
	Problem     *string
	SucceededAt *time.Time
	FirstAt     *time.Time
}

// endpoint is where it is sent to; zero: nowhere yet.
func (r canaryRow) endpoint() id.ID {
	if r.TenantShard == nil || r.EndpointID == nil {
		return id.ID{}
	}
	return id.ID{Shard: *r.TenantShard, N: *r.EndpointID}
}

// event is the event of the turn; zero: none yet.
func (r canaryRow) event() id.ID {
	if r.TenantShard == nil || r.EventID == nil {
		return id.ID{}
	}
	return id.ID{Shard: *r.TenantShard, N: *r.EventID}
}

func (r canaryRow) canary() (c Canary) {
	if r.FirstAt != nil {
		c.Since = *r.FirstAt
	}
	if r.SucceededAt != nil {
		c.Succeeded = *r.SucceededAt
		if c.Succeeded.After(c.Since) {
			c.Since = c.Succeeded
		}
	}
	if r.Problem != nil {
		c.Problem = *r.Problem
	}
	return c
}

const canaryColumns = `tenant_shard, tenant_id, endpoint_id, url, turn, started_at, event_id, accepted_at, received_at, problem,
    succeeded_at, first_at`

const readCanarySQL = `SELECT ` + canaryColumns + ` FROM canary WHERE id = 1`

func (w *Watch) readCanary(ctx context.Context) (canaryRow, error) {
	rows, err := w.deps.DB.Query(ctx, readCanarySQL)
	if err != nil {
		return canaryRow{}, pg.Fault(fmt.Errorf("read where the canary is: %w", err))
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[canaryRow])
	if err != nil {
		return row, pg.Fault(fmt.Errorf("read where the canary is: %w", err))
	}
	return row, nil
}

// Of those who come at the same moment one finds the turn free. The row that comes back has the event of the turn before. The first
// canary for a while has nothing to be behind.
const takeTurnSQL = `
WITH was AS MATERIALIZED (
    SELECT * FROM canary WHERE id = 1 AND (started_at IS NULL OR started_at <= @before) FOR UPDATE
), taken AS (
    UPDATE canary c SET turn = c.turn + 1, started_at = @now, event_id = NULL, accepted_at = NULL, received_at = NULL,
        first_at = CASE WHEN c.started_at > @lately THEN c.first_at ELSE @now END
    FROM was WHERE c.id = was.id
    RETURNING c.turn
)
SELECT w.tenant_shard, w.tenant_id, w.endpoint_id, w.url, t.turn, w.started_at, w.event_id, w.accepted_at, w.received_at, w.problem,
    w.succeeded_at, w.first_at
FROM was w, taken t`

// takeTurn makes the next canary this process's; false: it is not time yet, or another's.
func (w *Watch) takeTurn(ctx context.Context, now time.Time) (row canaryRow, taken bool, err error) {
	every := w.deps.Bounds.CanaryEvery
	rows, err := w.deps.DB.Query(ctx, takeTurnSQL, pgx.StrictNamedArgs{
		"now": now, "before": now.Add(-every), "lately": now.Add(-CanaryMisses * every),
	})
	if err == nil {
		row, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[canaryRow])
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return row, false, nil
	case err != nil:
		return row, false, pg.Fault(fmt.Errorf("take the canary's turn: %w", err))
	}
	return row, true, nil
}

// All of these change the row only while the turn is still the one that they are about.
const (
	canaryHomeSQL = `
UPDATE canary SET tenant_shard = @shard, tenant_id = @tenant, endpoint_id = @endpoint, url = @url WHERE id = 1 AND turn = @turn`
	canaryAcceptedSQL = `UPDATE canary SET event_id = @event, accepted_at = @at WHERE id = 1 AND turn = @turn`
	canaryReceivedSQL = `UPDATE canary SET received_at = @at WHERE id = 1 AND turn = @turn AND received_at IS NULL`
	canaryStuckSQL    = `UPDATE canary SET problem = @problem WHERE id = 1 AND turn = @turn`
	canaryThroughSQL  = `UPDATE canary SET succeeded_at = @at, problem = NULL WHERE id = 1 AND turn = @turn`
)

func (w *Watch) noteCanary(ctx context.Context, sql string, args pgx.StrictNamedArgs) error {
	if _, err := w.deps.DB.Exec(ctx, sql, args); err != nil {
		return pg.Fault(fmt.Errorf("note where the canary is: %w", err))
	}
	return nil
}
