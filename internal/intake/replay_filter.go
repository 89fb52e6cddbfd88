package intake

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/filter"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

// question is what a filter is asked: whether its endpoint wants an event.
type question struct {
	event, endpoint int64
	filter          string
}

// answers are what filters have said: true lets the event pass.
type answers map[question]bool

func (c chance) question() question {
	return question{event: c.Event, endpoint: c.Endpoint, filter: *c.Filter}
}

// Index events_pkey, for each in the one partition that it lies in. Rows come one by one, so one payload at a time is in memory.
const filteredSQL = `
SELECT e.id, coalesce(e.uid, ''), e.content_type, e.payload FROM events e
WHERE e.shard = @shard AND e.id = ANY (@events::bigint[]) ORDER BY e.id`

// ask marks the chances that the filter of their endpoint refuses, of those that would get a delivery otherwise. Where no endpoint has
// a filter, no payload is read. What known has the answer of is not asked again; what is asked is added to it.
func (i *Intake) ask(ctx context.Context, db pg.Querier, r Replay, found []chance, known answers) error {
	open := map[int64][]chance{}
	var events []int64
	for _, c := range found {
		if c.Filter == nil || r.fate(c) != missing {
			continue
		}
		if _, asked := known[c.question()]; asked {
			continue
		}
		if len(open[c.Event]) == 0 {
			events = append(events, c.Event)
		}
		open[c.Event] = append(open[c.Event], c)
	}
	if len(events) > 0 {
		rows, err := db.Query(ctx, filteredSQL, pgx.StrictNamedArgs{"shard": r.Tenant.Shard, "events": events})
		if err != nil {
			return fmt.Errorf("read what filters look at: %w", err)
		}
		var event int64
		seen := filter.Event{}
		_, err = pgx.ForEachRow(rows, []any{&event, &seen.UID, &seen.ContentType, &seen.Payload}, func() error {
			i.answer(r.Tenant.Shard, seen, open[event], known)
			return nil
		})
		if err != nil {
			return fmt.Errorf("read what filters look at: %w", err)
		}
	}
	for n, c := range found {
		if c.Filter != nil {
			passes, asked := known[c.question()]
			found[n].Refused = asked && !passes
		}
	}
	return nil
}

// answer asks the filters of one event's chances, which share what they may cost and one reading of the payload.
func (i *Intake) answer(shard int16, seen filter.Event, open []chance, known answers) {
	for n, c := range open {
		if n == 0 {
			seen.ID = func() string { return id.Event.Format(id.ID{Shard: shard, N: c.Event}) }
			seen.Type, seen.GroupKey, seen.CreatedAt = c.Type, c.GroupKey, id.TimeOf(c.Event)
		}
		candidate := subscriptions.Candidate{Filter: c.Filter}
		known[c.question()], _, _ = candidate.Passes(&i.filters, &seen)
	}
}
