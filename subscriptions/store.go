// Package subscriptions keeps who wants to be told what: tenants, their endpoints, the secrets that sign for them, and
// which events an endpoint wants; and the catalogue of event types. It is the one writer of the tables tenants, endpoints,
// endpoint_versions, endpoint_secrets, endpoint_pace, event_types and seal_keys.
//
// Matching (match.go, filter.go) and the rules of what an endpoint may be (validate*.go) are pure. The rest is one act per file,
// its SQL beside it. Three doors are for others' transactions: QueueCandidates for whoever accepts events, QueueHealth and
// QueuePace for whoever records attempts.
//
// It sends nothing, decides nothing about a delivery, and does not touch the deliveries of an endpoint that is disabled,
// dead or deleted: whoever owns those reads the status here. It does not check that a URL's host leads to an allowed
// address: CheckURL says what the text alone shows, the dialler sees the rest.
package subscriptions

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/seal"
)

// Deps are what a Store works with. All are needed but MaxTimeout.
type Deps struct {
	DB  *pgxpool.Pool
	IDs *id.Generator
	// Now is the database's time. Each act reads it once.
	Now func() time.Time
	Box *seal.Box
	// CheckURL refuses, with a sentence for the owner, a URL that deliveries may not go to as far as its text shows.
	CheckURL func(string) error
	// MaxTimeout is the longest timeout an endpoint may have, half of delivery.lease: an attempt has to end well before
	// its lease does. It never goes over a minute, which 0 stands for.
	MaxTimeout time.Duration
	// Changed hears of each endpoint that was changed or deleted, after the commit: whoever remembers endpoints forgets
	// it. It must not block; nil: nobody remembers any.
	Changed func(endpoint id.ID)
}

// Store reads and writes tenants and endpoints. It may be used by several goroutines at once.
type Store struct {
	db    *pgxpool.Pool
	ids   *id.Generator
	now   func() time.Time
	box   vault
	rules rules

	changed  func(id.ID)
	unsealed unsealedCache
	types    Catalogue
	lookAt   int // how many rows a search looks at in one go
	counted  pg.Resting[EndpointCounts]
	breakers pg.Resting[map[string]int64]
}

// New makes a Store. It does not touch the database.
func New(d Deps) *Store {
	longest := maxTimeout
	if d.MaxTimeout > 0 {
		longest = min(d.MaxTimeout, maxTimeout)
	}
	if d.Changed == nil {
		d.Changed = func(id.ID) {}
	}
	return &Store{
		counted: pg.Resting[EndpointCounts]{Factor: 10},
		db:      d.DB, ids: d.IDs, now: d.Now, box: vault{d.Box},
		rules:   rules{checkURL: d.CheckURL, maxTimeout: longest},
		changed: d.Changed, types: Catalogue{db: d.DB}, lookAt: lookAt,
	}
}

// inTx runs act in one transaction with one reading of the clock.
func (s *Store) inTx(ctx context.Context, act func(tx pgx.Tx, now time.Time) error) error {
	return pg.InTx(ctx, s.db, func(tx pgx.Tx) error { return act(tx, s.now()) })
}
