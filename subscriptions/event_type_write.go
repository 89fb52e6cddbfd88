package subscriptions

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

// PutEventType makes an entry of the catalogue what is given, and the entry itself if there is none. All faults are told at
// once. made says that it is new. From the moment it returns, this process holds payloads against the new schema; others do
// within seconds.
func (s *Store) PutEventType(ctx context.Context, name string, want EventTypeSettings) (t EventType, made bool, err error) {
	if _, err := want.check(name); err != nil {
		return EventType{}, false, err
	}
	err = s.inTx(ctx, func(tx pgx.Tx, now time.Time) error {
		if err := lockEventType(ctx, tx, name); err != nil {
			return err
		}
		before, err := findEventType(ctx, tx, name, "")
		made = fault.Is(err, fault.NotFound)
		switch {
		case made:
			before = EventType{ID: id.ID{N: s.ids.Next()}, Name: name, CreatedAt: now}
		case err != nil:
			return err
		}
		t = before.with(want, now)
		action, details := audit.EventTypeCreated, audit.Details{"name": name}
		if !made {
			action, details = audit.EventTypeUpdated, eventTypeChanges(before, t)
			if details == nil {
				t = before
				return nil
			}
			details["name"] = name
		}
		if err := writeEventType(ctx, tx, t); err != nil {
			return err
		}
		return s.note(ctx, tx, aboutEventType(t.ID, action, details))
	})
	if err != nil {
		return EventType{}, false, err
	}
	s.types.look(ctx)
	return t, made, nil
}

// with is the entry as it shall be. Its time of change is a later one in any case: others know a change by it.
func (t EventType) with(want EventTypeSettings, now time.Time) EventType {
	if !now.After(t.UpdatedAt) {
		now = t.UpdatedAt.Add(time.Microsecond)
	}
	t.Description, t.Schema, t.Example, t.UpdatedAt = want.Description, want.Schema, want.Example, now
	switch {
	case !want.Archived:
		t.ArchivedAt = nil
	case t.ArchivedAt == nil:
		t.ArchivedAt = &now
	}
	return t
}

// lockEventType has two who put the same name go one after the other, also when it is not there yet.
func lockEventType(ctx context.Context, tx pgx.Tx, name string) error {
	const query = `SELECT pg_advisory_xact_lock(hashtextextended('event type ' || @name, 0))`
	if _, err := tx.Exec(ctx, query, pgx.StrictNamedArgs{"name": name}); err != nil {
		return fmt.Errorf("wait for an event type: %w", err)
	}
	return nil
}

func writeEventType(ctx context.Context, tx pgx.Tx, t EventType) error {
	const query = `
INSERT INTO event_types (id, name, description, schema, example, archived_at, created_at, updated_at)
VALUES (@id, @name, @description, @schema::text::json, @example, @archived_at, @created_at, @updated_at)
ON CONFLICT (name) DO UPDATE
   SET description = excluded.description, schema = excluded.schema, example = excluded.example,
       archived_at = excluded.archived_at, updated_at = excluded.updated_at`
	var text *string
	if t.Schema != nil {
		s := string(t.Schema)
		text = &s
	}
	_, err := tx.Exec(ctx, query, pgx.StrictNamedArgs{
		"id": t.ID.N, "name": t.Name, "description": t.Description, "schema": text, "example": t.Example,
		"archived_at": t.ArchivedAt, "created_at": t.CreatedAt, "updated_at": t.UpdatedAt,
	})
	if err != nil {
		return fmt.Errorf("write an event type: %w", err)
	}
	return nil
}

// DeleteEventType takes an entry out of the catalogue. Events of the type are accepted as before, whatever is in them.
func (s *Store) DeleteEventType(ctx context.Context, name string) error {
	const query = `DELETE FROM event_types WHERE name = @name RETURNING id`
	err := s.inTx(ctx, func(tx pgx.Tx, _ time.Time) error {
		if !eventTypeForm.MatchString(name) {
			return noEventType()
		}
		rows, err := tx.Query(ctx, query, pgx.StrictNamedArgs{"name": name})
		if err != nil {
			return fmt.Errorf("delete an event type: %w", err)
		}
		gone, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		switch {
		case err != nil:
			return fmt.Errorf("delete an event type: %w", err)
		case len(gone) == 0:
			return noEventType()
		}
		return s.note(ctx, tx, aboutEventType(id.ID{N: gone[0]}, audit.EventTypeDeleted, audit.Details{"name": name}))
	})
	if err != nil {
		return err
	}
	s.types.look(ctx)
	return nil
}

func aboutEventType(t id.ID, action audit.Action, details audit.Details) audit.Entry {
	return audit.Entry{Action: action, Object: audit.Thing{Kind: id.EventType, ID: t}, Details: details}
}

func eventTypeChanges(before, after EventType) (d audit.Details) {
	d.Changed("description", before.Description, after.Description)
	d.ChangedUnseen("schema", !bytes.Equal(before.Schema, after.Schema))
	d.ChangedUnseen("example", !bytes.Equal(before.Example, after.Example))
	d.Changed("archived", before.ArchivedAt != nil, after.ArchivedAt != nil)
	return d
}
