package intake_test

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pgtest"
)

// everything is an event with every field that a receipt or a digest knows.
func everything() intake.Event {
	later := start.Add(time.Hour + time.Microsecond)
	return intake.Event{
		Type: "order.paid", Payload: []byte("{}"), ContentType: "text/plain", UID: "u", GroupKey: "g", DeliverAt: &later,
		EndpointIDs: []string{"a"}, Metadata: map[string]any{"m": 1.5},
	}
}

func TestARepetitionGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	withoutUID := everything()
	withoutUID.UID = ""
	past := order(1)
	past.DeliverAt = new(start.Add(-time.Hour))
	for name, test := range map[string]struct {
		key    string
		events []intake.Event
	}{
		"by key":                 {"k", []intake.Event{withoutUID}},
		"by uid":                 {"", []intake.Event{everything()}},
		"by both":                {"k", []intake.Event{everything()}},
		"a batch":                {"k", []intake.Event{order(1), everything(), order(1), withoutUID}},
		"a batch of uids":        {"", []intake.Event{everything(), {Type: "t", UID: "v"}}},
		"one uid twice":          {"k", []intake.Event{everything(), order(2), everything()}},
		"a deliver_at long past": {"k", []intake.Event{past}},
		"all printable":          {" !\"#~", []intake.Event{order(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			ten := d.tenant(t)
			a := d.endpoint(t, ten, "a")
			first, replayed, err := d.Accept(t.Context(), ten, test.key, test.events)
			if err != nil || replayed {
				t.Fatal(replayed, err)
			}
			// What the answer says is of the first time, whatever has changed since.
			d.pass(2 * time.Hour)
			d.endpoint(t, ten, "new")
			d.exec(t, `UPDATE endpoints SET deleted_at = now() WHERE id = $1`, a.N)
			again, replayed, err := d.Accept(t.Context(), ten, test.key, test.events)
			if err != nil || !replayed || !reflect.DeepEqual(first, again) {
				t.Errorf("the second answer is %+v, %v, %v; the first was %+v", again, replayed, err, first)
			}
			batch, replayed, err := d.AcceptBatch(t.Context(), ten, test.key, test.events)
			if err != nil || !replayed || !reflect.DeepEqual(first, batch) {
				t.Errorf("as a batch it is %+v, %v, %v", batch, replayed, err)
			}
			d.whole(t)
		})
	}
}

func TestTheSameUIDTwiceInABatchIsOneEvent(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	a := order(1)
	a.UID = "u"
	rs := d.accept(t, ten, "", a, order(2), a)
	if rs[0] != rs[2] || rs[0].ID == rs[1].ID || d.count(t, `SELECT count(*) FROM events`) != 2 {
		t.Errorf("receipts %+v", rs)
	}
}

func TestOtherContentUnderOneKey(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	d.endpoint(t, ten, "a")
	d.accept(t, ten, "k", everything())
	other := everything()
	other.Payload = []byte("{ }")
	_, _, err := d.Accept(t.Context(), ten, "k", []intake.Event{other})
	wantPointers(t, err, "")
	_, _, err = d.Accept(t.Context(), ten, "k", []intake.Event{everything(), order(1)})
	wantPointers(t, err, "")
	_, _, err = d.Accept(t.Context(), ten, "", []intake.Event{other})
	wantPointers(t, err, "/uid")
	_, _, err = d.Accept(t.Context(), ten, "another", []intake.Event{other})
	wantPointers(t, err, "/uid")
	other.UID = "another"
	_, _, err = d.Accept(t.Context(), ten, "k", []intake.Event{other})
	wantPointers(t, err, "")
	if n := d.count(t, `SELECT count(*) FROM idempotency_keys`); n != 2 {
		t.Errorf("%d idempotency rows, want the two of the first", n)
	}
	// Neither a key nor a uid is known to another tenant, nor is a key a uid.
	d.accept(t, d.neighbour(t, ten), "k", intake.Event{Type: "t", UID: "u"})
	d.accept(t, ten, "u", order(5))
	d.whole(t)
}

func TestABatchOfOldAndNewUIDs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	d.endpoint(t, ten, "")
	old, fresh := order(1), order(2)
	old.UID, fresh.UID = "old", "fresh"
	first := d.accept(t, ten, "", old)
	d.pass(time.Minute)
	rs, replayed, err := d.Accept(t.Context(), ten, "k", []intake.Event{fresh, old, old})
	if err != nil || replayed || rs[1] != first[0] || rs[2] != first[0] || rs[0].ID == first[0].ID {
		t.Fatalf("receipts %+v, %v, %v", rs, replayed, err)
	}
	again, replayed, err := d.Accept(t.Context(), ten, "k", []intake.Event{fresh, old, old})
	if err != nil || !replayed || !slices.Equal(again, rs) {
		t.Errorf("repeated: %+v, %v, %v", again, replayed, err)
	}
	// A new key over nothing but old events is a replay from the start.
	again, replayed, err = d.Accept(t.Context(), ten, "k2", []intake.Event{old})
	if err != nil || !replayed || !slices.Equal(again, first) {
		t.Errorf("old under a new key: %+v, %v, %v", again, replayed, err)
	}
	d.whole(t)
}

func TestManyAtOnceMakeOneEvent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		key, uid  string
		processes int
	}{
		"by key":                   {"k", "", 1},
		"by uid":                   {"", "u", 1},
		"by key, in two processes": {"k", "", 2},
		"by both, in two":          {"k", "u", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			desks := []*desk{deskOn(t, pool, 1), deskOn(t, pool, 2)}[:test.processes]
			ten := desks[0].tenant(t)
			desks[0].endpoint(t, ten, "")
			ev := order(1)
			ev.UID = test.uid
			const callers = 50
			answers := make([]intake.Receipt, callers)
			var fresh sync.Map
			var asking sync.WaitGroup
			for n := range callers {
				asking.Go(func() {
					rs, replayed, err := desks[n%len(desks)].Accept(t.Context(), ten, test.key, []intake.Event{ev})
					if err != nil {
						t.Error(err)
						return
					}
					answers[n] = rs[0]
					if !replayed {
						fresh.Store(n, true)
					}
				})
			}
			asking.Wait()
			for n := range answers {
				if answers[n] != answers[0] {
					t.Errorf("answer %d is %+v, the first %+v", n, answers[n], answers[0])
				}
			}
			made := 0
			fresh.Range(func(any, any) bool { made++; return true })
			if made != 1 {
				t.Errorf("%d callers were told that they made it", made)
			}
			if n := desks[0].count(t, `SELECT count(*) FROM events`); n != 1 {
				t.Errorf("%d events", n)
			}
			desks[0].whole(t)
		})
	}
}

// Two processes take the same keys in opposite orders, with other content: no deadlock, and one of them wins each.
func TestKeysAreTakenInOneOrder(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	desks := []*desk{deskOn(t, pool, 1), deskOn(t, pool, 2)}
	ten := desks[0].tenant(t)
	var asking sync.WaitGroup
	for round := range 20 {
		for n, d := range desks {
			asking.Go(func() {
				batch := make([]intake.Event, 20)
				for i := range batch {
					batch[i] = order(n)
					batch[i].UID = fmt.Sprintf("u-%d-%d", round, []int{i, len(batch) - 1 - i}[n])
				}
				if _, _, err := d.Accept(t.Context(), ten, "", batch); err != nil && !fault.Is(err, fault.Invalid) {
					t.Error(err)
				}
			})
		}
	}
	asking.Wait()
	if n := desks[0].count(t, `SELECT count(*) FROM events`); n != 400 {
		t.Errorf("%d events, want 20 of each round", n)
	}
	desks[0].whole(t)
}

func TestAUIDIsFreeWhenItsEventIsGone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	a, b := order(1), order(2)
	a.UID, b.UID = "u", "u"
	first := d.accept(t, ten, "k", a)[0]
	d.exec(t, `DELETE FROM events`)
	r, replayed, err := d.Accept(t.Context(), ten, "", []intake.Event{b})
	if err != nil || replayed || r[0].ID == first.ID {
		t.Fatalf("%+v, %v, %v", r, replayed, err)
	}
	again, replayed, err := d.Accept(t.Context(), ten, "", []intake.Event{b})
	if err != nil || !replayed || again[0] != r[0] {
		t.Errorf("repeated: %+v, %v, %v", again, replayed, err)
	}
	// So is a key that names it; where the uid is another's by now, it is not had for the asking.
	_, _, err = d.Accept(t.Context(), ten, "k", []intake.Event{a})
	wantPointers(t, err, "/uid")
	d.accept(t, ten, "k", order(3))
	d.whole(t)
}

func TestExpiredKeysGo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	ev := order(1)
	ev.UID = "u"
	d.accept(t, ten, "old", ev)
	d.exec(t, `INSERT INTO idempotency_keys (shard, tenant_id, kind, key, digest, event_ids, created_at)
		SELECT shard, tenant_id, kind, 'old-' || n, digest, event_ids, created_at FROM idempotency_keys, generate_series(1, 2500) n
		WHERE kind = 'key'`)
	d.pass(24 * time.Hour)
	d.accept(t, ten, "young", order(2))
	if n, err := d.DropExpiredKeys(t.Context(), ten.Shard^1, d.now()); n != 0 || err != nil {
		t.Errorf("of another bucket: %d, %v", n, err)
	}
	if n, err := d.DropExpiredKeys(t.Context(), ten.Shard, d.now()); n != 2501 || err != nil {
		t.Errorf("dropped %d, %v", n, err)
	}
	for key, want := range map[string]bool{"young": true, "old": false} {
		_, replayed, err := d.Accept(t.Context(), ten, key, []intake.Event{order(2)})
		if err != nil || replayed != want {
			t.Errorf("key %s is known: %v, %v", key, replayed, err)
		}
	}
	if _, replayed, err := d.Accept(t.Context(), ten, "", []intake.Event{ev}); err != nil || !replayed {
		t.Error("the uid went with the key")
	}
}

func TestOrphanUIDsGo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	gone, stays := order(1), order(2)
	gone.UID, stays.UID = "gone", "stays"
	d.accept(t, ten, "k", gone, stays)
	d.exec(t, `DELETE FROM events WHERE uid = 'gone'`)
	for _, want := range []struct {
		before time.Time
		n      int64
	}{{start, 0}, {start.Add(1), 0}, {start.Add(time.Second), 1}} {
		if n, err := d.DropOrphanUIDs(t.Context(), ten.Shard, want.before); n != want.n || err != nil {
			t.Errorf("before %v: dropped %d, %v; want %d", want.before, n, err, want.n)
		}
	}
	if n := d.count(t, `SELECT count(*) FROM idempotency_keys WHERE kind = 'uid' AND key = 'stays'`); n != 1 {
		t.Error("the uid of an event that is there went too")
	}
}
