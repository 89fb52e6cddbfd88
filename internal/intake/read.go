package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

// Stored is an accepted event without its payload. ID.Time is when it was accepted.
type Stored struct {
	ID, Tenant  id.ID
	UID         *string
	Type        string
	ContentType string
	Size        int // of the payload, in bytes
	GroupKey    *string
	DeliverAt   *time.Time
	FanOut      int
	Skipped     []Skip // the endpoints that the tenant had and that got no delivery
	Metadata    map[string]any
	Status      string // one of Statuses
}

// Skip says why an endpoint got no delivery.
type Skip struct {
	Endpoint id.ID
	Reason   subscriptions.SkipReason
	Detail   string // of subscriptions.SkipFilterError: what its filter stumbled over; of SkipSchema: where the event breaks it
}

// Filter narrows a list; zero values do not.
type Filter struct {
	Type   string
	Since  time.Time // accepted at or after
	Until  time.Time // accepted before
	Status string
}

const selectSQL = `
SELECT e.id, e.uid, e.type, e.content_type, octet_length(e.payload), e.group_key, e.deliver_at,
    coalesce(cardinality(e.delivery_ids), 0),
    e.skipped, e.metadata, s.status
FROM events e` + statusSQL

// byRefSQL is what an id or a uid leads to. Uses the primary keys of events (of the one partition) and idempotency_keys.
const byRefSQL = `
WHERE e.shard = @shard AND e.tenant_id = @tenant AND e.id = coalesce(@id::bigint, (
    SELECT event_ids[1] FROM idempotency_keys WHERE shard = @shard AND tenant_id = @tenant AND kind = 'uid' AND key = @uid))`

// Event gives one event of a tenant by its id or uid, or NotFound.
func (i *Intake) Event(ctx context.Context, tenant id.ID, ref string) (Stored, error) {
	args, err := refArgs(tenant, ref)
	if err != nil {
		return Stored{}, err
	}
	rows, err := i.db.Query(ctx, selectSQL+byRefSQL, args)
	if err != nil {
		return Stored{}, pg.Fault(fmt.Errorf("read an event: %w", err))
	}
	found, err := pgx.CollectExactlyOneRow(rows, scanStored(tenant))
	if err != nil {
		return Stored{}, pg.Fault(fmt.Errorf("read an event: %w", err))
	}
	return found, nil
}

const ownerSQL = `SELECT e.tenant_id FROM events e WHERE e.shard = @shard AND e.id = @id` // the primary key

// Owner gives the tenant that an event is for, or NotFound.
func (i *Intake) Owner(ctx context.Context, event id.ID) (id.ID, error) {
	owner := id.ID{Shard: event.Shard}
	err := i.db.QueryRow(ctx, ownerSQL, pgx.StrictNamedArgs{"shard": event.Shard, "id": event.N}).Scan(&owner.N)
	if errors.Is(err, pgx.ErrNoRows) {
		return id.ID{}, fault.New(fault.NotFound, "no such event")
	}
	if err != nil {
		return id.ID{}, pg.Fault(fmt.Errorf("read whose an event is: %w", err))
	}
	return owner, nil
}

const payloadSQL = `SELECT e.content_type, e.payload FROM events e` + byRefSQL

// Payload gives an event's payload, byte for byte as it came, or NotFound.
func (i *Intake) Payload(ctx context.Context, tenant id.ID, ref string) (contentType string, payload []byte, err error) {
	args, err := refArgs(tenant, ref)
	if err != nil {
		return "", nil, err
	}
	if err := i.db.QueryRow(ctx, payloadSQL, args).Scan(&contentType, &payload); err != nil {
		return "", nil, pg.Fault(fmt.Errorf("read a payload: %w", err))
	}
	return contentType, payload, nil
}

func refArgs(tenant id.ID, ref string) (pgx.StrictNamedArgs, error) {
	args := pgx.StrictNamedArgs{"shard": tenant.Shard, "tenant": tenant.N, "id": nil, "uid": ref}
	if !id.LooksLikeID(ref) {
		if checkUID(ref) != nil {
			return nil, fault.New(fault.NotFound, "no such event")
		}
		return args, nil
	}
	event, err := id.Event.Parse(ref)
	if err != nil || event.Shard != tenant.Shard {
		return nil, fault.New(fault.NotFound, "no such event")
	}
	args["id"] = event.N
	return args, nil
}

// Uses events_by_tenant, backwards; since and until are bounds of ids, so partitions outside them are not touched.
const listSQL = `
WHERE e.shard::integer = @shard AND e.tenant_id = @tenant AND e.id >= @since AND e.id < @until
  AND (@type = '' OR e.type = @type) AND (@status = '' OR s.status = @status)`

const newestFirstSQL = `
ORDER BY e.id DESC
LIMIT @limit`

// Events lists a tenant's events, newest first, from the one after before on (the zero id: from the newest). A status or
// a type that hardly any event has is looked for through all the history there is: a search that takes longer than
// pg.SearchPatience is an Invalid fault that says to narrow it.
func (i *Intake) Events(ctx context.Context, tenant id.ID, f Filter, limit int, before id.ID) ([]Stored, error) {
	s, err := f.searchOf(tenant, before, limit)
	if err != nil {
		return nil, err
	}
	err = i.searches.Run(ctx, i.db, func(tx pgx.Tx) (err error) {
		s.events, err = list(ctx, tx, pg.SearchPatience, s.sql, s.args, s.scan)
		return pg.SearchFault(err, "since and until")
	})
	return s.events, err
}

// searchOf makes a search for so many events at most.
func (f Filter) searchOf(tenant, before id.ID, want int) (*searching, error) {
	if err := pg.CheckText("/type", f.Type); err != nil {
		return nil, err
	}
	narrow, err := narrowing(f.Status)
	if err != nil {
		return nil, err
	}
	s := &searching{
		sql: selectSQL + listSQL + narrow + newestFirstSQL, scan: scanStored(tenant),
		tenant: tenant, want: want, since: id.Floor(f.Since), until: math.MaxInt64,
	}
	if !f.Until.IsZero() {
		s.until = id.Floor(f.Until)
	}
	if !before.IsZero() {
		s.until = min(s.until, before.N)
	}
	s.args = pgx.StrictNamedArgs{
		"shard": tenant.Shard, "tenant": tenant.N, "since": s.since, "until": s.until,
		"type": f.Type, "status": f.Status, "limit": want,
	}
	return s, nil
}

// list runs the statement of a list within patience.
func list(
	ctx context.Context, tx pgx.Tx, patience time.Duration, sql string, args pgx.StrictNamedArgs, scan pgx.RowToFunc[Stored],
) ([]Stored, error) {
	if err := pg.BoundSearch(ctx, tx, patience, true); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, sql, args)
	var events []Stored
	if err == nil {
		events, err = pgx.CollectRows(rows, scan)
	}
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return events, nil
}

func scanStored(tenant id.ID) pgx.RowToFunc[Stored] {
	return func(row pgx.CollectableRow) (Stored, error) {
		e := Stored{ID: id.ID{Shard: tenant.Shard}, Tenant: tenant}
		var skipped, metadata []byte
		err := row.Scan(&e.ID.N, &e.UID, &e.Type, &e.ContentType, &e.Size, &e.GroupKey, &e.DeliverAt, &e.FanOut, &skipped,
			&metadata, &e.Status)
		if err != nil {
			return Stored{}, fmt.Errorf("read an event's row: %w", err)
		}
		e.DeliverAt = utc(e.DeliverAt)
		if e.Metadata, err = decodeMetadata(metadata); err != nil {
			return Stored{}, err
		}
		var rows []skipRow
		if skipped != nil {
			if err := json.Unmarshal(skipped, &rows); err != nil {
				return Stored{}, fmt.Errorf("decode an event's skipped endpoints: %w", err)
			}
		}
		for _, r := range rows {
			e.Skipped = append(e.Skipped, Skip{Endpoint: id.ID{Shard: tenant.Shard, N: r.Endpoint}, Reason: r.Reason, Detail: r.Detail})
		}
		return e, nil
	}
}
