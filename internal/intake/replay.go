package intake

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

// Replay says which past events of a tenant are to be told again, and to whom.
type Replay struct {
	Tenant   id.ID
	Endpoint *id.ID // nil: all that the tenant has now, of the one event that Event names
	Event    *id.ID
	Since    time.Time // accepted at or after
	Before   int64     // and with a lower id than this
	Types    []string  // patterns; none: all
	// States are the finished states of deliveries that go again. Missing means those that the endpoint never got.
	States  []dispatcher.State
	Missing bool
}

// ReplayStep is what a step over some events has come to.
type ReplayStep struct {
	Matched int   // events that are meant, of those looked at; each counts for each endpoint
	Done    int   // of those, what is on its way again
	Last    int64 // the last event looked at: the next step begins behind it
	End     bool  // there are no more
}

// chance is one event that an endpoint may get again, or may have missed.
type chance struct {
	Event     int64
	Type      string
	GroupKey  string
	DeliverAt *time.Time
	Endpoint  int64
	Patterns  []string
	Filter    *string
	Status    string
	Pull      bool
	Ordered   bool
	Delivery  int64  // 0: there was none
	State     string // of it
	Skipped   string // why there was none
	Addressed bool   // the event was meant for some endpoints alone
	Broken    bool   // it broke its type's schema: nobody gets it unless somebody names it

	Refused bool `db:"-"` // by the endpoint's filter of now
}

// events_by_tenant, forwards; endpoints_by_tenant; then the primary keys, for each delivery in the one partition that it lies in.
// Its transaction is pg.Indexed.
const chancesSQL = `
SELECT e.id AS event, e.type, coalesce(e.group_key, '') AS group_key, e.deliver_at, p.id AS endpoint, p.event_types AS patterns,
    p.filter, p.status::text, p.kind = 'pull' AS pull, p.ordering = 'group' AS ordered, coalesce(x.id, 0) AS delivery, coalesce(x.state::text, '') AS state,
    coalesce((SELECT s ->> 'r' FROM jsonb_array_elements(e.skipped) s WHERE (s ->> 'e')::bigint = p.id LIMIT 1), '') AS skipped,
    coalesce(e.skipped = '[]' OR e.skipped @> '[{"r": "endpoint_ids"}]', false) AS addressed,
    coalesce(e.skipped @> '[{"r": "schema"}]', false) AS broken
FROM (SELECT * FROM events e
    WHERE e.shard::integer = @shard AND e.tenant_id = @tenant AND e.id > @after AND e.id < @before
      AND e.delivery_ids IS NOT NULL -- else it is on its way by itself
    ORDER BY e.id LIMIT @limit) e
CROSS JOIN (SELECT * FROM endpoints p
    WHERE p.shard = @shard AND p.tenant_id = @tenant AND p.deleted_at IS NULL AND (@endpoint::bigint = 0 OR p.id = @endpoint)) p
LEFT JOIN LATERAL (
    SELECT y.id, y.state FROM unnest(e.delivery_ids) AS n (id) CROSS JOIN LATERAL (
        (SELECT d.id, d.state, d.endpoint_id FROM deliveries d WHERE d.shard = @shard AND d.id = n.id LIMIT 1)
        UNION ALL
        (SELECT f.id, f.state, f.endpoint_id FROM deliveries_finished f WHERE f.shard = @shard AND f.id = n.id LIMIT 1)) y
    WHERE y.endpoint_id = p.id LIMIT 1) x ON true
ORDER BY e.id, p.id`

// chances looks at some events behind after, and asks filters what asked has no answer of.
func (i *Intake) chances(ctx context.Context, db pg.Querier, r Replay, after int64, limit int, asked answers) ([]chance, error) {
	args := pgx.StrictNamedArgs{
		"shard": r.Tenant.Shard, "tenant": r.Tenant.N, "endpoint": int64(0), "limit": limit,
		"after": max(after, id.Floor(r.Since)-1), "before": r.Before,
	}
	if r.Endpoint != nil {
		args["endpoint"] = r.Endpoint.N
	}
	if r.Event != nil {
		args["after"], args["before"] = r.Event.N-1, r.Event.N+1
	}
	rows, err := db.Query(ctx, chancesSQL, args)
	if err != nil {
		return nil, fmt.Errorf("look for what to replay: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[chance])
	if err != nil {
		return nil, fmt.Errorf("look for what to replay: %w", err)
	}
	return found, i.ask(ctx, db, r, found, asked)
}

// fate is what becomes of a chance.
type fate uint8

const (
	passed  fate = iota // it is not meant, or on its way by itself
	again               // its delivery goes again
	missing             // it gets a delivery
)

// fate decides. What an endpoint was skipped for because it did not ask for it stays skipped, also if it asks for it now, unless
// the replay names what it means: a type, or the very event. What its filter of now refuses stays skipped whatever is named. What a
// producer addressed to others is none of its business.
func (r Replay) fate(c chance) fate {
	named := r.Event != nil
	if len(r.Types) > 0 {
		named = slices.ContainsFunc(r.Types, func(p string) bool { return subscriptions.MatchPattern(p, c.Type) })
		if !named {
			return passed
		}
	}
	if c.Status == string(subscriptions.Dead) {
		return passed
	}
	if c.Delivery != 0 {
		if slices.ContainsFunc(r.States, func(s dispatcher.State) bool { return s.Finished() && s.String() == c.State }) {
			return again
		}
		return passed
	}
	if !r.Missing || c.Addressed || c.Refused || c.Broken && r.Event == nil {
		return passed
	}
	candidate := subscriptions.Candidate{Endpoint: c.Endpoint, EventTypes: c.Patterns, Status: subscriptions.Status(c.Status)}
	if wants, _ := candidate.Match(c.Type); !wants {
		return passed
	}
	skip := subscriptions.SkipReason(c.Skipped)
	if named || skip == "" || skip == subscriptions.SkipDead { // it was not there, or could not take it
		return missing
	}
	return passed
}

// CheckReplay says what keeps a replay from being made: there is no such endpoint, or it can get nothing. An event that is named
// and still to be fanned out is so at once.
func (i *Intake) CheckReplay(ctx context.Context, r Replay) error {
	if err := mayReplay(ctx, i.db, r); err != nil || r.Event == nil {
		return err
	}
	return i.FanOut(ctx, *r.Event)
}

// Index endpoints_pkey.
const replayableSQL = `
SELECT status::text FROM endpoints WHERE shard = @shard AND tenant_id = @tenant AND id = @endpoint AND deleted_at IS NULL`

func mayReplay(ctx context.Context, db pg.Querier, r Replay) error {
	if r.Endpoint == nil {
		return nil
	}
	var status string
	err := db.QueryRow(ctx, replayableSQL, pgx.StrictNamedArgs{
		"shard": r.Tenant.Shard, "tenant": r.Tenant.N, "endpoint": r.Endpoint.N,
	}).Scan(&status)
	if err = pg.Fault(err); fault.Is(err, fault.NotFound) || err == nil && r.Endpoint.Shard != r.Tenant.Shard {
		return fault.New(fault.NotFound, "no such endpoint")
	}
	if err == nil && status == string(subscriptions.Dead) {
		return fault.New(fault.Conflict, "the endpoint is dead: its receiver answered 410 Gone. Enable it first")
	}
	return err
}

// CountReplay counts what a step over the events behind after would do, and does nothing.
func (i *Intake) CountReplay(ctx context.Context, r Replay, after int64, limit int) (ReplayStep, error) {
	var found []chance
	err := i.searches.Run(ctx, i.db, func(tx pgx.Tx) (err error) {
		if err := pg.Indexed(ctx, tx); err != nil {
			return err //nolint:wrapcheck // says it all
		}
		found, err = i.chances(ctx, tx, r, after, limit, answers{})
		return err
	})
	if err != nil {
		return ReplayStep{}, err //nolint:wrapcheck // says it all
	}
	return r.step(found, limit), nil
}

func (r Replay) step(found []chance, limit int) ReplayStep {
	s := ReplayStep{}
	events := 0
	for _, c := range found {
		if c.Event != s.Last {
			s.Last = c.Event
			events++
		}
		if r.fate(c) != passed {
			s.Matched++
		}
	}
	s.End = events < limit || r.Event != nil
	return s
}

// The events that get a delivery more are locked first: of two replays of the same to the same endpoint, the second finds what
// the first has made. Index events_pkey, in the order of ids.
const lockEventsSQL = `
SELECT FROM events e WHERE e.shard = @shard AND e.id = ANY (@events::bigint[]) ORDER BY e.id FOR UPDATE`

// Replay carries out a step over the events behind after, in the caller's transaction, which is pg.Indexed. Wake the
// bucket after the commit.
func (i *Intake) Replay(ctx context.Context, tx pgx.Tx, r Replay, after int64, limit int, now time.Time) (ReplayStep, error) {
	if err := mayReplay(ctx, tx, r); err != nil {
		return ReplayStep{}, err
	}
	asked := answers{}
	found, err := i.chances(ctx, tx, r, after, limit, asked)
	if err != nil {
		return ReplayStep{}, err
	}
	s := r.step(found, limit)
	locked := r.eventsOf(found, missing)
	if len(locked) > 0 {
		if _, err := tx.Exec(ctx, lockEventsSQL, pgx.StrictNamedArgs{"shard": r.Tenant.Shard, "events": locked}); err != nil {
			return ReplayStep{}, fmt.Errorf("lock events: %w", err)
		}
		if found, err = i.chances(ctx, tx, r, after, limit, asked); err != nil {
			return ReplayStep{}, err
		}
		found = slices.DeleteFunc(found, func(c chance) bool {
			_, mine := slices.BinarySearch(locked, c.Event)
			return c.Event > s.Last || r.fate(c) == missing && !mine
		})
	}
	b := &pgx.Batch{}
	i.queueReplay(b, r, found, now, &s.Done)
	if b.Len() == 0 {
		return s, nil
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return ReplayStep{}, fmt.Errorf("replay events: %w", err)
	}
	return s, nil
}

// eventsOf gives the events of a fate, in order, each once.
func (r Replay) eventsOf(found []chance, f fate) (events []int64) {
	for _, c := range found {
		if r.fate(c) == f && (len(events) == 0 || events[len(events)-1] != c.Event) {
			events = append(events, c.Event)
		}
	}
	return events
}

// An event names all its deliveries, and no longer says that it skipped who gets it after all. Index events_pkey.
const addDeliveriesSQL = `
UPDATE events e SET delivery_ids = e.delivery_ids || @ids::bigint[],
    skipped = (SELECT jsonb_agg(s) FROM jsonb_array_elements(e.skipped) s WHERE (s ->> 'e')::bigint <> ALL (@endpoints::bigint[]))
WHERE e.shard = @shard AND e.id = @event`

func (i *Intake) queueReplay(b *pgx.Batch, r Replay, found []chance, now time.Time, done *int) {
	back := dispatcher.Many{Shard: r.Tenant.Shard, States: r.States}
	var news []dispatcher.NewDelivery
	for _, c := range found {
		switch r.fate(c) {
		case passed:
		case again:
			back.IDs = append(back.IDs, c.Delivery)
		case missing:
			d := dispatcher.NewDelivery{
				Shard: r.Tenant.Shard, ID: i.ids.Next(), Tenant: r.Tenant.N, Event: c.Event, Endpoint: c.Endpoint, DueAt: now,
				Pull: c.Pull,
			}
			if c.DeliverAt != nil && c.DeliverAt.After(now) {
				d.DueAt, d.Scheduled = *c.DeliverAt, true
			}
			d.Group = target{c.Endpoint, c.Pull, c.Ordered}.group(c.GroupKey, d.ID)
			news = append(news, d)
		}
	}
	dispatcher.QueueReplays(b, back, now, func(n int) { *done += n })
	dispatcher.QueueNewReplays(b, news)
	for from := 0; from < len(news); {
		to := from
		var ids, endpoints []int64
		for ; to < len(news) && news[to].Event == news[from].Event; to++ {
			ids, endpoints = append(ids, news[to].ID), append(endpoints, news[to].Endpoint)
		}
		b.Queue(addDeliveriesSQL, pgx.StrictNamedArgs{
			"shard": r.Tenant.Shard, "event": news[from].Event, "ids": ids, "endpoints": endpoints,
		})
		from = to
	}
	*done += len(news)
}
