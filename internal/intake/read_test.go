package intake_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pg"
)

func TestEventByIDAndByUID(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	other := d.neighbour(t, ten)
	d.endpoint(t, ten, "a")
	ev := everything()
	ev.Metadata = map[string]any{"n": json.Number("9007199254740993"), "s": "<&>"}
	r := d.accept(t, ten, "", ev)[0]
	want := intake.Stored{
		ID: r.ID, Tenant: ten, UID: &ev.UID, Type: ev.Type, ContentType: ev.ContentType, Size: 2, GroupKey: &ev.GroupKey,
		DeliverAt: ev.DeliverAt, FanOut: 1, Metadata: ev.Metadata, Status: "scheduled",
	}
	for _, ref := range []string{"u", id.Event.Format(r.ID)} {
		got, err := d.Event(t.Context(), ten, ref)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", ref, got, err, want)
		}
		_, err = d.Event(t.Context(), other, ref)
		wantCode(t, err, fault.NotFound)
		_, _, err = d.Payload(t.Context(), other, ref)
		wantCode(t, err, fault.NotFound)
	}
	for _, ref := range []string{"", "nobody", "no uid at all", "evt_", id.Delivery.Format(r.ID), id.Event.Format(id.ID{Shard: ten.Shard, N: r.ID.N + 1})} {
		_, err := d.Event(t.Context(), ten, ref)
		wantCode(t, err, fault.NotFound)
	}
	bare, err := d.Event(t.Context(), ten, id.Event.Format(d.accept(t, ten, "", order(1))[0].ID))
	if err != nil || bare.UID != nil || bare.GroupKey != nil || bare.DeliverAt != nil || bare.Metadata == nil || len(bare.Metadata) != 0 {
		t.Errorf("an event with nothing more: %+v, %v", bare, err)
	}
}

// Each letter is a delivery: Scheduled, Pending, Retried (pending after an attempt), in flIght, Held (pending, its
// endpoint disabled), held after an attempT; succeEded, Failed, Cancelled.
func TestStatus(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	working, disabled := d.endpoint(t, ten, ""), d.endpoint(t, ten, "")
	d.setStatus(t, disabled, "disabled")
	unfinished := map[rune]string{
		'S': `'scheduled', 0, NULL, NULL`, 'P': `'pending', 0, NULL, NULL`, 'R': `'pending', 1, NULL, NULL`,
		'I': `'in_flight', 1, 1, now()`, 'H': `'pending', 0, NULL, NULL`, 'T': `'pending', 2, NULL, NULL`,
	}
	finished := map[rune]string{
		'E': `'succeeded', NULL, 'succeeded'`, 'F': `'failed', 'exhausted', 'retryable'`, 'C': `'cancelled', 'endpoint_dead', NULL`,
	}
	events := map[string]id.ID{}
	want := map[string]string{
		"":  "succeeded",
		"S": "scheduled", "P": "queued", "R": "running", "I": "running", "H": "queued", "T": "queued",
		"E": "succeeded", "F": "failed", "C": "cancelled",
		"SP": "queued", "SR": "running", "SH": "queued", "PI": "running", "PR": "running", "HR": "running", "HT": "queued",
		"ES": "scheduled", "EP": "queued", "ER": "running", "EI": "running", "FP": "queued", "FR": "running", "FS": "scheduled",
		"CS": "scheduled", "CI": "running", "CT": "queued",
		"EF": "failed", "EC": "succeeded", "FC": "failed", "EFC": "failed", "EEE": "succeeded", "CC": "cancelled",
		"SPRIHTEFC": "running", "SPHTEFC": "queued", "SEFC": "scheduled",
	}
	for letters := range want {
		ev := d.ids.In(ten.Shard)
		events[letters] = ev
		deliveries := []int64{}
		for _, letter := range letters {
			delivery := d.ids.Next()
			deliveries = append(deliveries, delivery)
			endpoint := working
			if letter == 'H' || letter == 'T' {
				endpoint = disabled
			}
			if values := unfinished[letter]; values != "" {
				d.exec(t, `INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, next_retry_at, state, attempts,
					lease_owner, leased_until) VALUES ($1, $2, $3, $4, $5, now(), `+values+`)`,
					ten.Shard, delivery, ten.N, ev.N, endpoint.N)
			} else {
				d.exec(t, `INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, finished_at, attempts,
					state, reason, last_outcome) VALUES ($1, $2, $3, $4, $5, now(), 1, `+finished[letter]+`)`,
					ten.Shard, delivery, ten.N, ev.N, endpoint.N)
			}
		}
		d.exec(t, `INSERT INTO events (shard, id, tenant_id, type, content_type, payload, delivery_ids)
			VALUES ($1, $2, $3, 'letters.' || $4, 'text/plain', '', $5)`, ten.Shard, ev.N, ten.N, letters, deliveries)
	}
	for letters, ev := range events {
		got, err := d.Event(t.Context(), ten, id.Event.Format(ev))
		if err != nil || got.Status != want[letters] {
			t.Errorf("%q: %s, %v; want %s", letters, got.Status, err, want[letters])
		}
	}
	for _, status := range intake.Statuses() {
		list, err := d.Events(t.Context(), ten, intake.Filter{Status: status}, 100, id.ID{})
		if err != nil {
			t.Fatal(err)
		}
		var got, all []int64
		for _, e := range list {
			got = append(got, e.ID.N)
			if e.Status != status {
				t.Errorf("a list of %s holds one that is %s", status, e.Status)
			}
		}
		for letters, ev := range events {
			if want[letters] == status {
				all = append(all, ev.N)
			}
		}
		slices.Sort(all)
		slices.Reverse(all)
		if !slices.Equal(got, all) || len(all) == 0 {
			t.Errorf("%s: listed %v, want %v", status, got, all)
		}
	}
}

// A list ends when its time is up, however long its tables keep it waiting, and says what to do.
func TestAListThatTakesTooLongSaysSo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	locked, err := d.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer locked.Rollback(t.Context())
	if _, err := locked.Exec(t.Context(), `LOCK TABLE deliveries_finished`); err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), d.db, func(tx pgx.Tx) error { return intake.ListWithin(t.Context(), tx, ten, time.Millisecond) })
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "narrow it by since and until") {
		t.Errorf("got %v", err)
	}
}

// Both lists wait for a place among the searches that share it, for as long as their request does.
func TestAListWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	searches := pg.NewSearches(1)
	sharing := intake.New(intake.Deps{DB: d.db, IDs: d.ids, Now: d.now, Searches: searches})
	desk := dispatcher.NewDesk(dispatcher.DeskDeps{DB: d.db, Now: d.now, Searches: searches})
	gone, leave := context.WithCancel(t.Context())
	leave()
	err := searches.Run(t.Context(), d.db, func(pgx.Tx) error { // the only place is taken
		_, err := sharing.Events(gone, ten, intake.Filter{}, 1, id.ID{})
		wantCode(t, err, fault.Unavailable)
		_, err = desk.List(gone, dispatcher.Filter{Tenant: &ten}, 1, id.ID{})
		wantCode(t, err, fault.Unavailable)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sharing.Events(t.Context(), ten, intake.Filter{}, 1, id.ID{}); err != nil {
		t.Error(err)
	}
	if _, err := desk.List(t.Context(), dispatcher.Filter{Tenant: &ten}, 1, id.ID{}); err != nil {
		t.Error(err)
	}
}

func TestEventsFilterAndPage(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	other := d.neighbour(t, ten)
	var all []id.ID // newest first
	for n := range 10 {
		ev := order(n)
		ev.Type = []string{"even", "odd"}[n%2]
		all = append([]id.ID{d.accept(t, ten, "", ev)[0].ID}, all...)
		d.accept(t, other, "", ev)
		d.pass(time.Minute)
	}
	list := func(f intake.Filter, limit int, before id.ID) []id.ID {
		t.Helper()
		events, err := d.Events(t.Context(), ten, f, limit, before)
		if err != nil {
			t.Fatal(err)
		}
		var ids []id.ID
		for _, e := range events {
			ids = append(ids, e.ID)
		}
		return ids
	}
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	for name, test := range map[string]struct {
		got, want []id.ID
	}{
		"all":             {list(intake.Filter{}, 100, id.ID{}), all},
		"a page":          {list(intake.Filter{}, 3, id.ID{}), all[:3]},
		"the next one":    {list(intake.Filter{}, 3, all[2]), all[3:6]},
		"after the last":  {list(intake.Filter{}, 3, all[9]), nil},
		"a type":          {list(intake.Filter{Type: "odd"}, 2, id.ID{}), []id.ID{all[0], all[2]}},
		"no such type":    {list(intake.Filter{Type: "od"}, 2, id.ID{}), nil},
		"since":           {list(intake.Filter{Since: at(8)}, 9, id.ID{}), all[:2]},
		"until":           {list(intake.Filter{Until: at(2)}, 9, id.ID{}), all[8:]},
		"between":         {list(intake.Filter{Since: at(2), Until: at(4)}, 9, id.ID{}), all[6:8]},
		"until and after": {list(intake.Filter{Until: at(8)}, 2, all[5]), all[6:8]},
		"everything":      {list(intake.Filter{Type: "even", Since: at(1), Until: at(8), Status: "succeeded"}, 9, all[3]), []id.ID{all[5], all[7]}},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("%s: %v, want %v", name, test.got, test.want)
		}
	}
	_, err := d.Events(t.Context(), ten, intake.Filter{Status: "sent"}, 1, id.ID{})
	wantPointers(t, err, "/status")
}

// A page stays where it is while events arrive.
func TestPagesAreStableWhileEventsArrive(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	var want []string
	for n := range 6 {
		ev := order(n)
		ev.UID = fmt.Sprint(n)
		want = append([]string{ev.UID}, want...)
		d.accept(t, ten, "", ev)
	}
	var got []string
	for before := (id.ID{}); ; {
		page, err := d.Events(t.Context(), ten, intake.Filter{}, 2, before)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			got = append(got, *e.UID)
		}
		before = page[len(page)-1].ID
		d.accept(t, ten, "", order(100))
	}
	if !slices.Equal(got, want) {
		t.Errorf("paged through %v, want %v", got, want)
	}
}
