package intake

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// Gather holds the queue until n requests wait in it, and then lets them go as one group.
func (i *Intake) Gather(n int, ask func()) {
	q := i.queue
	when := func(is func() bool, then func()) {
		for done := false; !done; runtime.Gosched() {
			q.mu.Lock()
			if done = is(); done {
				then()
			}
			q.mu.Unlock()
		}
	}
	when(func() bool { return q.running == 0 }, func() { q.running = flushers })
	ask()
	when(func() bool { return len(q.jobs) == n }, func() {
		q.running = 0
		q.start()
	})
}

// Spoil gives events of this type, after their checks, a value that PostgreSQL refuses. It returns how many transactions
// were tried since.
func (i *Intake) Spoil(eventType string) (tries func() int) {
	commit := i.queue.commit
	var n atomic.Int64
	i.queue.commit = func(ctx context.Context, reqs []*request, patience time.Duration) ([]verdict, error) {
		n.Add(1)
		for _, r := range reqs {
			for m := range r.items {
				if r.items[m].Type == eventType {
					r.items[m].metadata = "{"
				}
			}
		}
		return commit(ctx, reqs, patience)
	}
	return func() int { return int(n.Load()) }
}

// open is a transaction that others begin and end.
type open struct{ pgx.Tx }

func (open) batch() *pgx.Batch     { return &pgx.Batch{} }
func (open) commitWith(*pgx.Batch) {}

func (o open) sendLast(ctx context.Context, b *pgx.Batch) error { return o.SendBatch(ctx, b).Close() }

// InsertIn is what Accept does, in a transaction of the caller's that stays open.
func (i *Intake) InsertIn(ctx context.Context, tx pgx.Tx, tenant id.ID, key string, events []Event) ([]Receipt, error) {
	r, err := i.check(tenant, key, events, batchPointer, nil)
	if err != nil {
		return nil, err
	}
	verdicts, _, _, err := i.insert(ctx, open{tx}, []*request{r}, i.now(), time.Minute)
	if err != nil {
		return nil, err
	}
	return verdicts[0].receipts, verdicts[0].err
}

// counted is an open transaction that knows how many statements it was sent.
type counted struct {
	open
	n *int
}

func (c counted) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	*c.n += b.Len()
	return c.open.SendBatch(ctx, b)
}

func (c counted) sendLast(ctx context.Context, b *pgx.Batch) error {
	return c.SendBatch(ctx, b).Close()
}

// StatementsIn says how many statements a group takes that has one event for each of the tenants.
func (i *Intake) StatementsIn(ctx context.Context, tx pgx.Tx, tenants []id.ID, key string, ev Event) (n int, err error) {
	var reqs []*request
	for _, ten := range tenants {
		r, err := i.check(ten, key, []Event{ev}, batchPointer, nil)
		if err != nil {
			return 0, err
		}
		reqs = append(reqs, r)
	}
	verdicts, _, _, err := i.insert(ctx, counted{open{tx}, &n}, reqs, i.now(), time.Minute)
	for _, v := range verdicts {
		err = errors.Join(err, v.err)
	}
	return n, err
}

// ListWithin is what Events does, with less patience.
func ListWithin(ctx context.Context, tx pgx.Tx, tenant id.ID, patience time.Duration) error {
	_, err := list(ctx, tx, patience, selectSQL+listSQL+newestFirstSQL, pgx.StrictNamedArgs{
		"shard": tenant.Shard, "tenant": tenant.N, "since": int64(0), "until": int64(1), "type": "rare", "status": "", "limit": 1,
	}, scanStored(tenant))
	return pg.SearchFault(err, "since and until")
}

// SearchWith is Search that looks at so many events first, within a budget, and at all at once only if told to.
func (i *Intake) SearchWith(
	ctx context.Context, tenant id.ID, f Filter, limit int, before id.ID, look int, budget, atOnce time.Duration,
) (Page, error) {
	return i.search(ctx, tenant, f, limit, before, allowance{budget, look, atOnce})
}

// SelectSQL and its companions are the statements that the plans of are looked at.
const (
	ByRefSQL = selectSQL + byRefSQL
	ListSQL  = selectSQL + listSQL + newestFirstSQL
	KeysSQL  = dropKeysSQL
)

// ListByStatusSQL is the list narrowed to a status.
func ListByStatusSQL(status string) string {
	narrow, err := narrowing(status)
	if err != nil {
		panic(err)
	}
	return selectSQL + listSQL + narrow + newestFirstSQL
}

// These are run inside Accept's transaction.
const (
	TenantsSQL = tenantsSQL
	RecallSQL  = recallSQL
	NewestSQL  = newestSQL
)

// And these inside that of the fan-out.
const (
	UnroutedSQL = unroutedSQL
	PayloadsSQL = payloadsSQL
	RoutedSQL   = routedSQL
	UnmarkSQL   = unmarkSQL
)
