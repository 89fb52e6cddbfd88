package intake_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pg"
)

func TestEventsWithinATransactionOfTheCallers(t *testing.T) {
	t.Parallel()
	w := newDesk(t)
	tenant := w.tenant(t)
	w.endpoint(t, tenant, "")
	gone := w.neighbour(t, tenant)
	w.exec(t, `UPDATE tenants SET deleted_at = now() WHERE id = $1`, gone.N)
	calls := []intake.Call{
		{Tenant: tenant, Events: []intake.Event{{Type: "a", Payload: []byte("1")}, {Type: "b", Payload: []byte("2")}}},
		{Tenant: tenant, Events: []intake.Event{{Type: "not a type"}}},
		{Tenant: gone, Events: []intake.Event{{Type: "a"}}},
	}
	errNo := errors.New("no")
	run := func(end error) (answers []intake.Answer, accepted func()) {
		t.Helper()
		err := pg.InTx(t.Context(), w.db, func(tx pgx.Tx) (err error) {
			if answers, accepted, err = w.AcceptIn(t.Context(), tx, calls, w.now()); err != nil {
				return err
			}
			return end
		})
		if !errors.Is(err, end) {
			t.Fatal(err)
		}
		return answers, accepted
	}
	run(errNo)
	if n := w.count(t, `SELECT count(*) FROM events`); n != 0 {
		t.Fatalf("rolled back, and %d events are there", n)
	}
	answers, accepted := run(nil)
	accepted()
	if events, deliveries := w.count(t, `SELECT count(*) FROM events`), w.count(t, `SELECT count(*) FROM deliveries`); events != 2 || deliveries != 2 {
		t.Errorf("%d events and %d deliveries are there", events, deliveries)
	}
	if r := answers[0].Receipts; answers[0].Err != nil || len(r) != 2 || r[1].Type != "b" || r[1].Deliveries != 1 {
		t.Errorf("the good call has %+v", answers[0])
	}
	if !fault.Is(answers[1].Err, fault.Invalid) || !fault.Is(answers[2].Err, fault.NotFound) {
		t.Errorf("the bad ones have %v and %v", answers[1].Err, answers[2].Err)
	}
	calls[0].Key = "k"
	err := pg.InTx(t.Context(), w.db, func(tx pgx.Tx) error {
		_, _, err := w.AcceptIn(t.Context(), tx, calls, w.now())
		return err
	})
	if err == nil {
		t.Error("a call with a key is taken")
	}
}
