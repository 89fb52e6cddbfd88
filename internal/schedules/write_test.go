package schedules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/schedules"
	"github.com/postrider/postrider/subscriptions"
)

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tenant := s.tenant()
	if _, _, err := s.store.PutEventType(t.Context(), "strict", subscriptions.EventTypeSettings{Schema: []byte(`{"required":["total"]}`)}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		words  string
		change func(*schedules.Terms)
	}{
		{"/cron", func(n *schedules.Terms) { n.Cron = "61 * * * *" }},
		{"/timezone", func(n *schedules.Terms) { n.Timezone = "Mars" }},
		{"/type", func(n *schedules.Terms) { n.Type = "a b" }},
		{"/uid", func(n *schedules.Terms) { n.UID = "sch_mine" }},
		{"/late", func(n *schedules.Terms) { n.Late = "some" }},
		{"/description", func(n *schedules.Terms) { n.Description = strings.Repeat("x", 10_000) }},
		{"/content_type", func(n *schedules.Terms) { n.ContentType = "json" }},
		{"/endpoint_ids/0", func(n *schedules.Terms) { n.EndpointIDs = []string{"nobody"} }},
		{"/metadata/schedule", func(n *schedules.Terms) { n.Metadata = map[string]any{"schedule": "mine"} }},
		{"/metadata", func(n *schedules.Terms) { n.Metadata = map[string]any{"a": "\x00"} }},
		{"/payload", func(n *schedules.Terms) { n.Type = "strict" }},
	} {
		n := terms("@hourly")
		c.change(&n)
		_, err := s.schedules.Create(t.Context(), tenant, n)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("got %v, want %s", err, c.words)
		}
	}
	// All at once.
	n := terms("61 * * * *")
	n.Timezone, n.Type, n.Late = "Mars", "a b", "some"
	_, err := s.schedules.Create(t.Context(), tenant, n)
	for _, pointer := range []string{"/cron", "/timezone", "/type", "/late"} {
		if err == nil || !strings.Contains(err.Error(), pointer) {
			t.Errorf("%v says nothing of %s", err, pointer)
		}
	}
	if left, err := s.schedules.List(t.Context(), tenant, 10, id.ID{}); err != nil || len(left) != 0 {
		t.Errorf("%d were made (%v)", len(left), err)
	}
	var events int
	if err := s.db.QueryRow(t.Context(), `SELECT count(*) FROM events`).Scan(&events); err != nil || events != 0 {
		t.Errorf("%d events were made (%v)", events, err)
	}
}

func TestAScheduleIsChanged(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tenant := s.tenant()
	n := terms("@hourly")
	n.UID = "hourly"
	sch := s.create(tenant, n)
	s.create(tenant, terms("@hourly"))
	change := func(to func(*schedules.Terms)) schedules.Schedule {
		t.Helper()
		got, err := s.schedules.Update(t.Context(), tenant, "hourly", to)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	s.pass(90 * time.Minute) // 13:00 is due
	if got := change(func(n *schedules.Terms) { n.Payload = []byte("2") }); !got.NextAt.Equal(noon.Add(time.Hour)) {
		t.Errorf("another payload moves it to %s", got.NextAt)
	}
	s.work()
	if got := change(func(n *schedules.Terms) { n.Paused = true }); got.NextAt != nil || got.Status() != schedules.Paused {
		t.Errorf("paused it is %+v", got)
	}
	s.pass(5 * time.Hour)
	s.work()
	if got := change(func(n *schedules.Terms) { n.Paused = false }); !got.NextAt.Equal(noon.Add(7 * time.Hour)) {
		t.Errorf("it goes on at %s", got.NextAt)
	}
	if got := change(func(n *schedules.Terms) { n.Cron = "45 * * * *" }); !got.NextAt.Equal(noon.Add(6*time.Hour + 45*time.Minute)) {
		t.Errorf("another cron moves it to %s", got.NextAt)
	}
	if got := s.made(sch); len(got) != 1 {
		t.Errorf("it made %v", got)
	}
	_, err := s.schedules.Update(t.Context(), tenant, "hourly", func(n *schedules.Terms) { n.Cron = "* *" })
	wantFault(t, err, fault.Invalid)
	_, err = s.schedules.Update(t.Context(), s.tenant(), "hourly", func(*schedules.Terms) {})
	wantFault(t, err, fault.NotFound)
	n = terms("@hourly")
	n.UID = "hourly"
	_, err = s.schedules.Create(t.Context(), tenant, n)
	wantFault(t, err, fault.Conflict)
	if err := s.schedules.Delete(t.Context(), tenant, "hourly"); err != nil {
		t.Fatal(err)
	}
	wantFault(t, s.schedules.Delete(t.Context(), tenant, "hourly"), fault.NotFound)
}

func TestOneIsRunByHand(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	n := terms("@hourly")
	n.Paused = true
	sch := s.create(s.tenant(), n)
	receipt, err := s.schedules.RunNow(t.Context(), sch.Tenant, id.Schedule.Format(sch.ID))
	if err != nil {
		t.Fatal(err)
	}
	got := s.get(sch)
	if receipt.Deliveries != 1 || *got.LastEvent != receipt.ID || got.NextAt != nil {
		t.Errorf("it is %+v, the event %+v", got, receipt)
	}
	last, err := s.schedules.Occurrences(t.Context(), sch.ID, 10)
	if err != nil || len(last) != 1 || !last[0].ByHand {
		t.Errorf("its occurrences are %+v (%v)", last, err)
	}
}

func TestTheListOfATenant(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tenant := s.tenant()
	first, second := s.create(tenant, terms("@hourly")), s.create(tenant, terms("@daily"))
	s.create(s.tenant(), terms("@daily"))
	page, err := s.schedules.List(t.Context(), tenant, 1, id.ID{})
	if err != nil || len(page) != 1 || page[0].ID != second.ID {
		t.Fatalf("the first page is %+v (%v)", page, err)
	}
	page, err = s.schedules.List(t.Context(), tenant, 5, page[0].ID)
	if err != nil || len(page) != 1 || page[0].ID != first.ID {
		t.Errorf("the second page is %+v (%v)", page, err)
	}
}

// A schema, or an endpoint that is named and gone, may make a schedule fail. Whoever pauses it, or says why in its description, changes
// nothing of that; who resumes it or changes its event is told.
func TestAScheduleThatFailsCanBePaused(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tenant := s.tenant()
	sch := s.create(tenant, terms("5 * * * *"))
	if _, _, err := s.store.PutEventType(s.Context(), "report.due", subscriptions.EventTypeSettings{Schema: []byte(`{"required":["total"]}`)}); err != nil {
		t.Fatal(err)
	}
	update := func(change func(*schedules.Terms)) error {
		_, err := s.schedules.Update(s.Context(), tenant, id.Schedule.Format(sch.ID), change)
		return err
	}
	if err := update(func(t *schedules.Terms) { t.Description = "fails" }); err != nil {
		t.Errorf("describe it: %v", err)
	}
	if err := update(func(t *schedules.Terms) { t.Paused = true }); err != nil {
		t.Errorf("pause it: %v", err)
	}
	wantFault(t, update(func(t *schedules.Terms) { t.GroupKey = "g" }), fault.Invalid)
	wantFault(t, update(func(t *schedules.Terms) { t.Paused = false }), fault.Invalid)
	if got := s.get(sch); !got.Terms.Paused || got.Terms.Description != "fails" || got.Terms.GroupKey != "" {
		t.Errorf("it is %+v", got.Terms)
	}
}
