package alert_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

const look = 10 * time.Second

func (w *world) raiseService(kinds ...alert.Kind) {
	w.Helper()
	var fs []alert.ServiceFinding
	for _, k := range kinds {
		fs = append(fs, alert.ServiceFinding{Kind: k, Detail: "found at " + w.now.Format(time.TimeOnly)})
	}
	if err := w.desk().RaiseService(w.Context(), fs, look); err != nil {
		w.Fatal(err)
	}
}

func (w *world) notices() string {
	w.Helper()
	return w.one(`SELECT coalesce(string_agg(n.kind::text || ' ' || s.kind::text, ', ' ORDER BY n.id), '') FROM alert_notices n JOIN service_alerts s ON s.id = n.alert_id`)
}

// Many processes look, and find the same in the same moment: it is one alert and is told once; and so is its end.
func TestManyRaiseAndResolveOneAlertOfTheService(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	at := start
	together := func(act func(d *alert.Desk) error) {
		t.Helper()
		var all sync.WaitGroup
		for range 8 {
			d := alert.NewDesk(w.db, w.ids.Next, func() time.Time { return at })
			all.Go(func() {
				if err := act(d); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	raise := func(d *alert.Desk) error {
		return d.RaiseService(t.Context(), []alert.ServiceFinding{
			{Kind: alert.ServiceNoDispatcher, Detail: "none lives"}, {Kind: alert.ServiceDeliveriesLate, Detail: "late"},
		}, look)
	}
	together(raise)
	at = at.Add(look)
	together(raise)
	if got := w.one(`SELECT string_agg(kind || ' ' || state || ' ' || count, ', ' ORDER BY kind) FROM service_alerts`); got != "service.deliveries_late open 2, service.no_dispatcher open 2" {
		t.Errorf("got %s", got)
	}
	if got := w.one(`SELECT string_agg(kind || '', ', ') FROM alert_notices`); got != "opened, opened" {
		t.Errorf("told %s", got)
	}
	at = at.Add(3 * look)
	calm := func(d *alert.Desk) error {
		_, err := d.CalmService(t.Context(), []alert.Kind{alert.ServiceNoDispatcher, alert.ServiceCanaryFailed}, 3*look)
		return err
	}
	together(calm)
	if got := w.one(`SELECT string_agg(kind || ' ' || state, ', ' ORDER BY kind) FROM service_alerts`); got != "service.deliveries_late open, service.no_dispatcher resolved" {
		t.Errorf("got %s", got)
	}
	if got := w.notices(); strings.Count(got, "resolved") != 1 {
		t.Errorf("told %s", got)
	}
}

func TestWhatSomebodyStillFindsIsNotResolved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.raiseService(alert.ServiceCanaryFailed)
	for _, c := range []struct {
		after time.Duration
		want  int64
	}{{3*look - 1, 0}, {3 * look, 1}, {4 * look, 0}} {
		w.now = start.Add(c.after)
		if n, err := w.desk().CalmService(t.Context(), alert.ServiceKinds(), 3*look); err != nil || n != c.want {
			t.Errorf("after %v: %d, %v", c.after, n, err)
		}
	}
	w.raiseService(alert.ServiceCanaryFailed)
	if got := w.one(`SELECT count(*)::text FROM service_alerts`); got != "2" {
		t.Errorf("%s alerts", got)
	}
	if got := w.notices(); got != "opened service.canary_failed, resolved service.canary_failed, opened service.canary_failed" {
		t.Errorf("told %s", got)
	}
}

// An alert of the service is looked at and closed as any other is.
func TestAnAlertOfTheServiceIsReadAcknowledgedAndResolved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.raiseService(alert.ServiceNoScheduler)
	d := w.desk()
	a := w.list(d)[0]
	if a.Kind != alert.ServiceNoScheduler || !a.Tenant.IsZero() || !a.Endpoint.IsZero() || a.LastDelivery != nil || a.State != alert.Open || a.Count != 1 {
		t.Errorf("got %+v", a)
	}
	if got, err := d.Get(t.Context(), a.ID); err != nil || got != a {
		t.Errorf("got %+v, %v", got, err)
	}
	for range 2 {
		if got, err := d.Acknowledge(t.Context(), a.ID, "ann"); err != nil || got.State != alert.Acknowledged || *got.AcknowledgedBy != "ann" {
			t.Fatalf("Acknowledge = %+v, %v", got, err)
		}
	}
	for range 2 {
		if got, err := d.Resolve(t.Context(), a.ID, "bob"); err != nil || got.State != alert.Resolved || *got.ResolvedBy != "bob" {
			t.Fatalf("Resolve = %+v, %v", got, err)
		}
	}
	if _, err := d.Acknowledge(t.Context(), a.ID, "ann"); !fault.Is(err, fault.Conflict) {
		t.Errorf("acknowledged once resolved: %v", err)
	}
	if got := w.one(`SELECT string_agg(action || ' ' || (tenant_id IS NULL)::text, ', ' ORDER BY id) FROM audit_log`); got != "alert.acknowledged true, alert.resolved true" {
		t.Errorf("the audit log has %s", got)
	}
	if got := w.notices(); got != "opened service.no_scheduler, resolved service.no_scheduler" {
		t.Errorf("told %s", got)
	}
}

// Both kinds are one list with one cursor, newest first, unless it is a tenant's.
func TestAlertsOfTheServiceAreListedAmongTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	for i, kind := range alert.ServiceKinds() {
		w.raise(w.finding(i, alert.DeliveryFailed, "failed"))
		w.raiseService(kind)
	}
	d := w.desk()
	for name, c := range map[string]struct {
		f    alert.Filter
		want int
	}{
		"all":                      {alert.Filter{}, 8},
		"open":                     {alert.Filter{States: []alert.State{alert.Open}}, 8},
		"resolved":                 {alert.Filter{States: []alert.State{alert.Resolved}}, 0},
		"of a tenant":              {alert.Filter{Tenant: &w.tenant}, 4},
		"of a kind":                {alert.Filter{Kinds: []alert.Kind{alert.ServiceNoDispatcher}}, 1},
		"of kinds of both":         {alert.Filter{Kinds: []alert.Kind{alert.ServiceNoDispatcher, alert.DeliveryFailed}}, 5},
		"open, of an endpoint's":   {alert.Filter{States: []alert.State{alert.Open}, Kinds: []alert.Kind{alert.DeliveryFailed}}, 4},
		"none of a kind":           {alert.Filter{Kinds: []alert.Kind{alert.EndpointDead}}, 0},
		"a tenant's of the others": {alert.Filter{Tenant: &w.tenant, Kinds: []alert.Kind{alert.ServiceNoDispatcher}}, 0},
	} {
		var got []alert.Alert
		for before := (id.ID{}); ; before = got[len(got)-1].ID {
			page, err := d.List(t.Context(), c.f, 3, before)
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, page...); len(page) < 3 {
				break
			}
		}
		newest := slices.IsSortedFunc(got, func(a, b alert.Alert) int { return int(b.ID.N - a.ID.N) })
		if len(got) != c.want || !newest {
			t.Errorf("%s: %d alerts, newest first: %v", name, len(got), newest)
		}
	}
	counts, err := d.CountOpenByKind(t.Context(), nil)
	want := map[alert.Kind]int64{alert.DeliveryFailed: 4, alert.ServiceDeliveriesLate: 1, alert.ServiceCanaryFailed: 1, alert.ServiceNoScheduler: 1, alert.ServiceNoDispatcher: 1}
	if err != nil || !maps.Equal(counts, want) {
		t.Errorf("counted %v, %v", counts, err)
	}
}

func TestAlertsOfTheServiceAreToldAndDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	var log bytes.Buffer
	s, err := alert.NewSender(alert.SenderConfig{}, alert.SenderDeps{DB: w.db, Now: func() time.Time { return w.now }, Log: zerolog.New(&log)})
	if err != nil {
		t.Fatal(err)
	}
	w.raiseService(alert.ServiceNoDispatcher)
	w.now = start.Add(time.Minute)
	if _, err := w.desk().CalmService(t.Context(), alert.ServiceKinds(), look); err != nil {
		t.Fatal(err)
	}
	if n, err := s.SendDue(t.Context()); n != 2 || err != nil {
		t.Errorf("%d are sent, %v", n, err)
	}
	for _, want := range []string{`"kind":"service.no_dispatcher"`, `"message":"alert.opened"`, `"message":"alert.resolved"`} {
		if !strings.Contains(log.String(), want) || strings.Contains(log.String(), `"tenant"`) {
			t.Errorf("the log has %s", log.String())
		}
	}
	w.now = start.Add(91 * 24 * time.Hour)
	if n, err := w.desk().DropOld(t.Context(), 0); err != nil || n == 0 {
		t.Errorf("%d are dropped, %v", n, err)
	}
	if got := w.one(`SELECT count(*) || ' ' || (SELECT count(*) FROM alert_notices) FROM service_alerts`); got != "0 0" {
		t.Errorf("left are %s", got)
	}
}

// The kinds are those of the schema.
func TestKindsOfTheServiceAreTheSchemas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	rows, err := w.db.Query(t.Context(), `SELECT unnest(enum_range(NULL::service_alert_kind))::text`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	var want []string
	for _, k := range alert.ServiceKinds() {
		want = append(want, k.String())
		if back, err := alert.ParseKind(k.String()); back != k || err != nil || !k.OfService() {
			t.Errorf("%v is read as %v, %v", k, back, err)
		}
	}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the schema has %v, we have %v, %v", got, want, err)
	}
}

// It concerns no tenant and no endpoint, and its message names none.
func TestWhatIsSaidOfTheService(t *testing.T) {
	t.Parallel()
	w, to, log := newWorld(t, 0), newSink(t), &logged{}
	d := alert.NewDesk(w.db, w.ids.Next, func() time.Time { return start })
	if err := d.RaiseService(t.Context(), []alert.ServiceFinding{{Kind: alert.ServiceNoDispatcher, Detail: "None lives."}}, look); err != nil {
		t.Fatal(err)
	}
	w.sendDue(w.sender(log, to.shoutrrr()), 1)
	if len(to.got) != 1 {
		t.Fatalf("%d messages; the log: %s", len(to.got), log.String())
	}
	want := "Postrider alert opened: service.no_dispatcher\nNone lives.\nWhat to do: start a process with the role dispatcher: nothing is delivered.\nAlert alr_"
	if !strings.HasPrefix(to.got[0], want) || strings.Contains(to.got[0], "Tenant") {
		t.Errorf("got %s", to.got[0])
	}
}
