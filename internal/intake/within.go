package intake

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// within is a transaction of the caller's: its beginning and its end are not ours.
type within struct{ pgx.Tx }

func (within) batch() *pgx.Batch { return &pgx.Batch{} }

func (within) commitWith(*pgx.Batch) {}

func (w within) sendLast(ctx context.Context, b *pgx.Batch) error {
	return w.SendBatch(ctx, b).Close() //nolint:wrapcheck // whoever calls it says what it was
}

// Answer is what one call of AcceptIn comes to: a receipt for each of its events, or a fault as of Take.
type Answer struct {
	Receipts []Receipt
	Err      error
}

var errRepeatable = errors.New("accept events within a transaction: a call with a key or a uid has to wait in the queue")

// AcceptIn is Take for many calls at once, in the caller's transaction: their events are there when that is committed, and gone
// when it is not. What is wrong with one call fails that one alone. The error is about all of them, and leaves the transaction
// broken; Spoilt says whether one of them is to blame. After the commit the caller calls accepted, which wakes whoever sends.
//
// The calls have no keys and no uids: whoever owns the transaction sees to it that nothing is accepted twice. Their events are in
// order with others of their groups as if another process had accepted them: see ordering.go.
func (i *Intake) AcceptIn(ctx context.Context, tx pgx.Tx, calls []Call, now time.Time) (_ []Answer, accepted func(), err error) {
	answers := make([]Answer, len(calls))
	spans := make([]EnqueueSpan, len(calls))
	defer func() {
		for n, span := range spans {
			finish(span, answers[n].Receipts, false, errors.Join(answers[n].Err, err))
		}
	}()
	var reqs []*request
	var places []int
	for n, c := range calls {
		pointer := plainPointer
		if c.Batch {
			pointer = batchPointer
		}
		r, err := i.check(c.Tenant, c.Key, c.Events, pointer, i.types.Schemas())
		if err != nil {
			answers[n].Err = err
			continue
		}
		if r.repeatable() {
			return nil, nil, errRepeatable
		}
		r.tenantUID = c.TenantUID
		spans[n] = i.begin(ctx, r, c)
		reqs, places = append(reqs, r), append(places, n)
	}
	if len(reqs) == 0 {
		return answers, func() {}, nil
	}
	verdicts, deliveries, made, err := i.insert(ctx, within{tx}, reqs, now, lonePatience)
	if err != nil {
		return nil, nil, err
	}
	for n, v := range verdicts {
		answers[places[n]] = Answer{Receipts: v.receipts, Err: v.err}
	}
	return answers, func() {
		if len(deliveries) > 0 {
			i.wake(deliveries)
		}
		i.accepted(made)
	}, nil
}

// Spoilt reports whether an error of a transaction is the fault of what was to be written in it, so that others may do better
// without it; else the store is to blame.
func Spoilt(err error) bool { return blame(err) == itsContent }
