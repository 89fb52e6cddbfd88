package dispatcher

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
)

// damage makes payloads that are "spoilt" fail whoever reads them, as a damaged page of the table does.
func (w *world) damage() {
	w.Helper()
	_, err := w.db.Exec(w.Context(), `
CREATE FUNCTION sound(payload bytea) RETURNS bytea STABLE LANGUAGE plpgsql AS $$ BEGIN
    IF payload = 'spoilt' THEN
        RAISE EXCEPTION 'missing chunk number 0 for toast value 16412' USING ERRCODE = 'data_corrupted';
    END IF;
    RETURN payload;
END $$;
ALTER TABLE events RENAME TO sound_events;
CREATE VIEW events AS SELECT shard, id, tenant_id, type, content_type, sound(payload) AS payload, NULL::bytea AS trace FROM sound_events`)
	if err != nil {
		w.Fatal(err)
	}
}

// turns claims, a second apart, as often as it takes to park what cannot be sent.
func (w *world) turns() {
	w.Helper()
	for range maxRescues + 1 {
		w.round(w.d)
		w.advance(spoiltWait + time.Millisecond)
	}
}

// parked checks that a delivery is parked without an attempt, and that its owner is told whose fault it is and nothing of the
// database.
func (w *world) parked(delivery id.ID, attempts int) {
	w.Helper()
	got := w.get(delivery)
	if got.State != StateFailed || got.Reason != ReasonPoisoned || got.Attempts != attempts {
		w.Errorf("the spoilt delivery: %+v", got)
	}
	var detail string
	if err := w.db.QueryRow(w.Context(), `SELECT detail FROM alerts`).Scan(&detail); err != nil || !strings.Contains(detail, "Postrider's own") {
		w.Errorf("the alert says %q, %v", detail, err)
	}
	if strings.Contains(detail, "toast") || strings.Contains(detail, "SQLSTATE") {
		w.Errorf("the alert tells of the database: %q", detail)
	}
}

func TestEventThatCannotBeReadCostsItsOwnDelivery(t *testing.T) {
	t.Parallel()
	for name, group := range map[string]int64{"in no group": 0, "in a group": 7} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, always(200))
			endpoint, other := w.endpoint(), w.endpoint()
			before := w.enqueueIn(group, endpoint, `{}`)
			spoilt := w.enqueueIn(group, endpoint, `spoilt`)
			beside, after := w.enqueue(other, `{}`), w.enqueueIn(group, endpoint, `{}`)
			w.damage()
			for range 3 { // a group goes one by one
				w.turns()
			}
			for _, delivery := range []id.ID{before, beside, after} {
				if got := w.get(delivery); got.State != StateSucceeded || got.Attempts != 1 {
					t.Errorf("beside the spoilt one: %+v", got)
				}
			}
			w.parked(spoilt, 0)
		})
	}
}

// A delivery that nobody can even lease holds up its endpoint for a while, and no other one.
func TestRowThatCannotBeLeasedCostsItsEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	endpoint, other := w.endpoint(), w.endpoint()
	stuck, beside := w.enqueue(endpoint, `{}`), w.enqueue(other, `{}`)
	_, err := w.db.Exec(t.Context(), `
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION 'invalid page in block 7' USING ERRCODE = 'data_corrupted';
END $$`)
	if err == nil {
		_, err = w.db.Exec(t.Context(), `CREATE TRIGGER refuse BEFORE UPDATE ON deliveries FOR EACH ROW WHEN (old.id = `+strconv.FormatInt(stuck.N, 10)+`) EXECUTE FUNCTION refuse()`)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.turns()
	if got := w.get(beside); got.State != StateSucceeded {
		t.Errorf("beside the one that cannot be leased: %+v", got)
	}
	if _, err := w.db.Exec(t.Context(), `DROP TRIGGER refuse ON deliveries`); err != nil {
		t.Fatal(err)
	}
	w.advance(sickFor)
	w.turns()
	if got := w.get(stuck); got.State != StateSucceeded || got.Attempts != 1 {
		t.Errorf("when it can be leased again: %+v", got)
	}
}

// Our own code panics over one delivery, be it while it is sent or while it is recorded: the process and the others live on.
func TestPanicCostsItsOwnDelivery(t *testing.T) {
	t.Parallel()
	var spoilt id.ID
	w := newWorld(t, func(r *http.Request) (*http.Response, error) {
		if posted(r) == id.Delivery.Format(spoilt) {
			panic("over this one")
		}
		return reply(200, nil, "")
	})
	endpoint := w.endpoint()
	before := w.enqueue(endpoint, `{}`)
	spoilt = w.enqueue(endpoint, `{}`)
	after := w.enqueue(endpoint, `{}`)
	w.turns()
	for _, delivery := range []id.ID{before, after} {
		if got := w.get(delivery); got.State != StateSucceeded || got.Attempts != 1 {
			t.Errorf("beside the spoilt one: %+v", got)
		}
	}
	w.parked(spoilt, maxRescues) // its requests may have gone out
	for _, a := range w.attempts(spoilt) {
		if a.Outcome != Unknown || !strings.Contains(a.Error, "Postrider's own") {
			t.Errorf("attempt: %+v", a)
		}
	}
}

func TestPanicOverARecordCostsItsOwnResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	endpoint := w.endpoint()
	good := w.enqueue(endpoint, `{}`)
	sound := w.attempted(w.d)
	bad := sound
	bad.claimed.ID = w.enqueue(endpoint, `{}`).N
	bad.target = nil // nothing should come so far, and what does panics
	w.d.flush(t.Context(), []result{bad, sound})
	if got := w.get(good); got.State != StateSucceeded {
		t.Errorf("beside the spoilt result: %+v", got)
	}
}

// One delivery costs every process its life that claims it, and all that is in flight there with it. It alone is parked.
func TestDeliveryThatKillsItsProcessTakesNoOtherAlong(t *testing.T) {
	t.Parallel()
	for name, grouped := range map[string]bool{"in no group": false, "in groups": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, always(200))
			var deadly id.ID
			var sound []id.ID
			for n := range int64(12) {
				endpoint := w.endpoint()
				for range 2 {
					group := int64(0)
					if grouped {
						group = n%4 + 1
					}
					sound = append(sound, w.enqueueIn(group, endpoint, `{}`))
				}
				if n == 5 {
					deadly = w.enqueueIn(sound[0].N, endpoint, `{}`)
				}
			}
			for range 40 {
				w.live(deadly)
			}
			for _, delivery := range sound {
				if got := w.get(delivery); got.State != StateSucceeded {
					t.Errorf("a sound one: %+v", got)
				}
			}
			if got := w.get(deadly); got.State != StateFailed || got.Reason != ReasonPoisoned || got.Attempts != maxRescues {
				t.Errorf("the deadly one: %+v", got)
			}
		})
	}
}

// live is the life of a process: it claims, and dies at once if the deadly delivery is among what it gets; else it delivers.
// Afterwards its leases run out.
func (w *world) live(deadly id.ID) {
	w.Helper()
	p := w.another(always(200))
	if n := w.claim(p); n > 0 {
		p.senders.Wait()
		var results []result
		dies := false
		for len(p.results) > 0 {
			r := <-p.results
			dies = dies || r.claimed.ID == deadly.N
			results = append(results, r)
		}
		if !dies {
			p.flush(w.Context(), results)
		}
	}
	w.advance(2 * time.Minute)
	if _, err := w.d.rescue(w.Context()); err != nil {
		w.Fatal(err)
	}
	w.settle(w.d)
}
