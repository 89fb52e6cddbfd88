package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/filter"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/schema"
)

// CatalogueEvery is how often a process looks for what others have changed in the catalogue.
const CatalogueEvery = time.Second

// Catalogue is what a process knows of the event types that have a schema. Whoever accepts events asks it for each of them, so
// it answers from memory; Refresh keeps that up to date. It may be used by several goroutines at once.
type Catalogue struct {
	db      *pgxpool.Pool
	reading sync.Mutex // one reads at a time, so that nobody puts back what an older look has seen
	known   atomic.Pointer[Schemas]
}

// Schemas are those of the types that have one, by name.
type Schemas map[string]typeSchema

type typeSchema struct {
	of      time.Time      // the row's updated_at
	checked *schema.Schema // nil: it cannot be used
}

// Catalogue is the store's.
func (s *Store) Catalogue() *Catalogue { return &s.types }

// Schemas are what is known at the moment; nil: no type has one.
func (c *Catalogue) Schemas() *Schemas { return c.known.Load() }

// Check holds an event against the schema of its type, if that has one. Its error is an Invalid fault that points into the
// event: /payload/amount.
func (s *Schemas) Check(eventType, contentType string, payload []byte) error {
	if s == nil {
		return nil
	}
	known, has := (*s)[eventType]
	if !has || known.checked == nil {
		return nil
	}
	var faults fault.Fields
	if !filter.IsJSON(contentType) {
		faults.Addf("/content_type", "is no JSON, and the event type has a schema, which is about JSON")
	} else {
		faults.Add("/payload", known.checked.Check(payload))
	}
	return faults.Err()
}

// Asks reports whether the type has a schema, so that Check looks into payloads of it.
func (s *Schemas) Asks(eventType string) bool {
	if s == nil {
		return false
	}
	return (*s)[eventType].checked != nil
}

// look is Refresh after a change of our own: should it fail, the next look will do.
func (c *Catalogue) look(ctx context.Context) { _ = c.Refresh(ctx) }

// Refresh reads what has changed. A schema that cannot be used, which no version of ours has let in, checks nothing and
// is told of once.
func (c *Catalogue) Refresh(ctx context.Context) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	versions, err := schemaVersions(ctx, c.db)
	if err != nil {
		return pg.Fault(err)
	}
	next, changed := Schemas{}, []string{}
	if now := c.known.Load(); now != nil {
		next = maps.Clone(*now)
	}
	before := len(next)
	maps.DeleteFunc(next, func(name string, t typeSchema) bool {
		of, there := versions[name]
		return !there || !of.Equal(t.of)
	})
	for name := range versions {
		if _, same := next[name]; !same {
			changed = append(changed, name)
		}
	}
	if len(changed) == 0 && len(next) == before {
		return nil
	}
	faulty, err := readSchemas(ctx, c.db, changed, next)
	if err != nil {
		return pg.Fault(err)
	}
	if len(next) == 0 {
		c.known.Store(nil)
	} else {
		c.known.Store(&next)
	}
	return faulty
}

// schemaVersions says when each type that has a schema was changed last.
func schemaVersions(ctx context.Context, db pg.Querier) (map[string]time.Time, error) {
	const query = `SELECT name, updated_at FROM event_types WHERE schema IS NOT NULL`
	rows, err := db.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("look for event types: %w", err)
	}
	versions := map[string]time.Time{}
	var name string
	var of time.Time
	if _, err := pgx.ForEachRow(rows, []any{&name, &of}, func() error { versions[name] = of; return nil }); err != nil {
		return nil, fmt.Errorf("look for event types: %w", err)
	}
	return versions, nil
}

func readSchemas(ctx context.Context, db pg.Querier, names []string, into Schemas) (faulty, err error) {
	const query = `SELECT name, updated_at, schema::text FROM event_types WHERE schema IS NOT NULL AND name = ANY (@names)`
	if len(names) == 0 {
		return nil, nil
	}
	rows, err := db.Query(ctx, query, pgx.StrictNamedArgs{"names": names})
	if err != nil {
		return nil, fmt.Errorf("read schemas: %w", err)
	}
	var name, text string
	var of time.Time
	_, err = pgx.ForEachRow(rows, []any{&name, &of, &text}, func() error {
		checked, err := schema.Compile([]byte(text))
		if err != nil {
			faulty = errors.Join(faulty, fmt.Errorf("use the schema of %s: %w", name, err))
		}
		into[name] = typeSchema{of, checked}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read schemas: %w", err)
	}
	return faulty, nil
}
