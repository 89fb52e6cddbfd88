package subscriptions

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

const eventTypeColumns = `id, name, description, schema::text, example, archived_at, created_at, updated_at`

func scanEventType(row pgx.CollectableRow) (EventType, error) {
	var t EventType
	var text *string
	err := row.Scan(&t.ID.N, &t.Name, &t.Description, &text, &t.Example, &t.ArchivedAt, &t.CreatedAt, &t.UpdatedAt)
	if err != nil {
		return EventType{}, fmt.Errorf("read an event type's row: %w", err)
	}
	if text != nil {
		t.Schema = []byte(*text)
	}
	t.ArchivedAt, t.CreatedAt, t.UpdatedAt = utc(t.ArchivedAt), t.CreatedAt.UTC(), t.UpdatedAt.UTC()
	return t, nil
}

// EventType gives an entry of the catalogue, or NotFound.
func (s *Store) EventType(ctx context.Context, name string) (EventType, error) {
	t, err := findEventType(ctx, s.db, name, "")
	if err != nil {
		return EventType{}, pg.Fault(err)
	}
	return t, nil
}

// findEventType reads an entry, with a lock or "".
func findEventType(ctx context.Context, q pg.Querier, name, lock string) (EventType, error) {
	const query = `
SELECT ` + eventTypeColumns + ` FROM event_types WHERE name = @name` // the primary key
	if !eventTypeForm.MatchString(name) {
		return EventType{}, noEventType()
	}
	rows, err := q.Query(ctx, query+lock, pgx.StrictNamedArgs{"name": name})
	if err != nil {
		return EventType{}, fmt.Errorf("read an event type: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanEventType)
	switch {
	case err != nil:
		return EventType{}, fmt.Errorf("read an event type: %w", err)
	case len(found) == 0:
		return EventType{}, noEventType()
	}
	return found[0], nil
}

// EventTypes lists the catalogue, newest first, those with ids below before; the zero id is the beginning. archived leaves out
// those that are not so, or those that are; nil: it is all the same.
func (s *Store) EventTypes(ctx context.Context, archived *bool, limit int, before id.ID) ([]EventType, error) {
	const query = `
SELECT ` + eventTypeColumns + `
  FROM event_types
 WHERE id < @before AND (@archived::boolean IS NULL OR (archived_at IS NOT NULL) = @archived)
 ORDER BY id DESC LIMIT @limit` // event_types_id_key
	rows, err := s.db.Query(ctx, query, pgx.StrictNamedArgs{"before": orHighest(before), "archived": archived, "limit": limit})
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("list event types: %w", err))
	}
	found, err := pgx.CollectRows(rows, scanEventType)
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("list event types: %w", err))
	}
	return found, nil
}
