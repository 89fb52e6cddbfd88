package intake_test

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/intake"
)

// breakOnce has the server end the connection of the first transaction that comes to a point.
func (d *desk) breakOnce(t *testing.T, trigger string) {
	t.Helper()
	d.exec(t, `CREATE SEQUENCE broken`) // a rollback does not turn it back
	d.exec(t, `CREATE FUNCTION break_once() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN IF nextval(''broken'') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NEW; END'`)
	d.exec(t, trigger)
}

// A connection that ends before the commit costs nobody anything: the same is done again.
func TestAConnectionThatEndsBeforeTheCommit(t *testing.T) {
	t.Parallel()
	for name, trigger := range map[string]string{
		"while the key is claimed":    `CREATE TRIGGER b BEFORE INSERT ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION break_once()`,
		"in the batch of the commit":  `CREATE TRIGGER b BEFORE INSERT ON deliveries FOR EACH ROW EXECUTE FUNCTION break_once()`,
		"while the event is written":  `CREATE TRIGGER b BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION break_once()`,
		"after everything is written": `CREATE TRIGGER b AFTER INSERT ON deliveries FOR EACH ROW EXECUTE FUNCTION break_once()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			ten := d.tenant(t)
			d.endpoint(t, ten, "")
			d.breakOnce(t, trigger)
			rs := d.accept(t, ten, "key", order(1))
			if n := d.count(t, `SELECT count(*) FROM events`); n != 1 || len(rs) != 1 {
				t.Errorf("%d events, %d receipts", n, len(rs))
			}
			d.whole(t)
		})
	}
}

// One that ends during the commit may have stored the events. The caller is told, and the same key finds it out.
func TestAConnectionThatEndsDuringTheCommit(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	d.endpoint(t, ten, "")
	d.breakOnce(t, `CREATE CONSTRAINT TRIGGER b AFTER INSERT ON deliveries DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION break_once()`)
	_, _, err := d.Accept(t.Context(), ten, "key", []intake.Event{order(1)})
	wantCode(t, err, fault.Unavailable)
	if err == nil || !strings.Contains(err.Error(), "may have been done, or not") {
		t.Errorf("the caller is told: %v", err)
	}
	d.accept(t, ten, "key", order(1))
	if n := d.count(t, `SELECT count(*) FROM events`); n != 1 {
		t.Errorf("%d events", n)
	}
	d.whole(t)
}
