package intake_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/subscriptions"
)

func TestAcceptFansOut(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	other := d.neighbour(t, ten)
	all := d.endpoint(t, ten, "")
	twice := d.endpoint(t, ten, "", "order.*", "order.paid")
	billing := d.endpoint(t, ten, "", "invoice.*")
	disabled := d.endpoint(t, ten, "")
	dead := d.endpoint(t, ten, "")
	deleted := d.endpoint(t, ten, "")
	d.endpoint(t, other, "")
	d.setStatus(t, disabled, "disabled")
	d.setStatus(t, dead, "dead")
	d.exec(t, `UPDATE endpoints SET deleted_at = now() WHERE shard = $1 AND id = $2`, deleted.Shard, deleted.N)

	rs, replayed, err := d.Accept(t.Context(), ten, "", []intake.Event{order(1)})
	if err != nil || replayed {
		t.Fatal(replayed, err)
	}
	r := rs[0]
	want := intake.Receipt{ID: r.ID, Type: "order.paid", Status: "queued", Deliveries: 3, CreatedAt: start}
	if !reflect.DeepEqual(rs, []intake.Receipt{want}) || r.ID.Shard != ten.Shard {
		t.Errorf("receipts %+v, want %+v", rs, want)
	}
	if got := d.targets(t, r.ID); !slices.Equal(got, []int64{all.N, twice.N, disabled.N}) {
		t.Errorf("deliveries to %v", got)
	}
	if n := d.count(t, `SELECT count(*) FROM deliveries WHERE state = 'pending' AND next_retry_at = $1 AND tenant_id = $2`, start, ten.N); n != 3 {
		t.Errorf("%d of the deliveries are pending, due now and the tenant's", n)
	}
	if got := d.wakes(); !slices.Equal(got, []int16{ten.Shard}) {
		t.Errorf("woken: %v", got)
	}
	ev, err := d.Event(t.Context(), ten, id.Event.Format(r.ID))
	if err != nil {
		t.Fatal(err)
	}
	if want := []intake.Skip{{Endpoint: billing, Reason: subscriptions.SkipEventType}, {Endpoint: dead, Reason: subscriptions.SkipDead}}; !reflect.DeepEqual(ev.Skipped, want) {
		t.Errorf("skipped %v, want %v", ev.Skipped, want)
	}
	d.whole(t)
}

func TestAcceptWithoutAnEndpoint(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	r := d.accept(t, ten, "", order(1))[0]
	if r.Status != "succeeded" || r.Deliveries != 0 || d.wakes() != nil {
		t.Errorf("receipt %+v", r)
	}
	if n := d.count(t, `SELECT count(*) FROM events WHERE skipped IS NULL AND metadata IS NULL AND group_key IS NULL AND uid IS NULL`); n != 1 {
		t.Error("what was not given is stored as something")
	}
}

func TestDeliverAt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	d.endpoint(t, ten, "")
	hour := start.Add(time.Hour).In(time.FixedZone("CET", 3600))
	for name, test := range map[string]struct {
		at     time.Time
		status string
		kept   *time.Time
		state  string
		due    time.Time
	}{
		"ahead":         {hour, "scheduled", new(hour.UTC()), "scheduled", hour},
		"at the bound":  {start.Add(90 * 24 * time.Hour), "scheduled", new(start.Add(90 * 24 * time.Hour)), "scheduled", start.Add(90 * 24 * time.Hour)},
		"past":          {start.Add(-time.Hour), "queued", nil, "pending", start},
		"just now":      {start, "queued", nil, "pending", start},
		"nanoseconds":   {start.Add(time.Second + 999), "scheduled", new(start.Add(time.Second)), "scheduled", start.Add(time.Second)},
		"the year zero": {time.Time{}, "queued", nil, "pending", start},
	} {
		ev := order(1)
		ev.DeliverAt = &test.at
		r := d.accept(t, ten, "", ev)[0]
		if r.Status != test.status || !reflect.DeepEqual(r.DeliverAt, test.kept) {
			t.Errorf("%s: receipt %+v", name, r)
		}
		if n := d.count(t, `SELECT count(*) FROM deliveries WHERE event_id = $1 AND state::text = $2 AND next_retry_at = $3`, r.ID.N, test.state, test.due); n != 1 {
			t.Errorf("%s: the delivery is not %s at %v", name, test.state, test.due)
		}
		if woken := d.wakes() != nil; woken != (test.status == "queued") {
			t.Errorf("%s: woken: %v", name, woken)
		}
	}
}

func TestEndpointIDsNarrow(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	other := d.neighbour(t, ten)
	a, b := d.endpoint(t, ten, "a"), d.endpoint(t, ten, "")
	billing := d.endpoint(t, ten, "billing", "invoice.*")
	theirs := d.endpoint(t, other, "theirs")
	bID := id.Endpoint.Format(b)
	named := func(refs ...string) intake.Event {
		ev := order(1)
		ev.EndpointIDs = refs
		return ev
	}
	r := d.accept(t, ten, "", named("a", "billing", id.Endpoint.Format(a)))[0]
	if got := d.targets(t, r.ID); !slices.Equal(got, []int64{a.N}) || r.Deliveries != 1 {
		t.Errorf("deliveries to %v, receipt %+v", got, r)
	}
	ev, err := d.Event(t.Context(), ten, id.Event.Format(r.ID))
	if want := []intake.Skip{{Endpoint: b, Reason: intake.SkipNotNamed}, {Endpoint: billing, Reason: subscriptions.SkipEventType}}; err != nil || !reflect.DeepEqual(ev.Skipped, want) {
		t.Errorf("skipped %v, %v; want %v", ev.Skipped, err, want)
	}
	_, _, err = d.Accept(t.Context(), ten, "", []intake.Event{named("nobody", bID, "theirs", id.Endpoint.Format(theirs))})
	wantPointers(t, err, "/endpoint_ids/0", "/endpoint_ids/2", "/endpoint_ids/3")
	before := d.count(t, `SELECT count(*) FROM events`)
	_, _, err = d.Accept(t.Context(), ten, "key", []intake.Event{order(1), named(bID), named("nobody"), {Type: "t", UID: "u"}})
	wantPointers(t, err, "/events/2/endpoint_ids/0")
	if got := d.count(t, `SELECT count(*) + (SELECT count(*) FROM idempotency_keys) FROM events`); got != before {
		t.Error("a batch that was refused left something behind")
	}
	d.accept(t, ten, "key", order(1)) // and its key is free
	d.whole(t)
}

func TestAcceptTest(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	other := d.neighbour(t, ten)
	d.endpoint(t, ten, "")
	billing := d.endpoint(t, ten, "", "invoice.*")
	theirs := d.endpoint(t, other, "")
	for range 2 { // two tests are two, whatever they carry
		r, err := d.AcceptTest(t.Context(), billing, ten, intake.Event{Type: "postrider.test", UID: "u"})
		if err != nil || r.Deliveries != 1 || r.Status != "queued" || !slices.Equal(d.targets(t, r.ID), []int64{billing.N}) {
			t.Errorf("receipt %+v, %v", r, err)
		}
		if ev, err := d.Event(t.Context(), ten, id.Event.Format(r.ID)); err != nil || ev.Skipped != nil {
			t.Errorf("a test skips nobody: %+v, %v", ev, err)
		}
	}
	_, err := d.AcceptTest(t.Context(), theirs, ten, order(1))
	wantCode(t, err, fault.NotFound)
	_, err = d.AcceptTest(t.Context(), billing, ten, intake.Event{})
	wantPointers(t, err, "/type")
	d.setStatus(t, billing, "dead")
	_, err = d.AcceptTest(t.Context(), billing, ten, order(1))
	wantCode(t, err, fault.Conflict)
	d.whole(t)
}

func TestNobodysTenant(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	gone := d.tenant(t)
	d.exec(t, `UPDATE tenants SET deleted_at = now()`)
	for _, ten := range []id.ID{gone, d.ids.NewTenant(), {Shard: gone.Shard ^ 1, N: gone.N}} {
		ev := order(1)
		ev.UID = "u"
		_, _, err := d.Accept(t.Context(), ten, "key", []intake.Event{ev})
		wantCode(t, err, fault.NotFound)
	}
	if n := d.count(t, `SELECT count(*) + (SELECT count(*) FROM idempotency_keys) FROM events`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// The cases are payloads that have broken senders: numbers beyond a double, names given twice, what is no UTF-8, nothing.
func TestPayloadsComeBackByteForByte(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/payloads.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct{ Case, Base64, SHA256 string }
	if err := json.Unmarshal(raw, &cases); err != nil || len(cases) == 0 {
		t.Fatal(len(cases), err)
	}
	d := newDesk(t)
	ten := d.tenant(t)
	d.endpoint(t, ten, "")
	var batch []intake.Event
	for _, c := range cases {
		payload, err := base64.StdEncoding.DecodeString(c.Base64)
		if err != nil {
			t.Fatal(err)
		}
		batch = append(batch, intake.Event{Type: "t", Payload: payload, ContentType: "application/json; charset=utf-8"})
	}
	batch = append(batch, intake.Event{Type: "t"})
	rs := d.accept(t, ten, "", batch...)
	for n, c := range cases {
		single := d.accept(t, ten, "", batch[n])[0]
		for _, r := range []intake.Receipt{rs[n], single} {
			contentType, got, err := d.Payload(t.Context(), ten, id.Event.Format(r.ID))
			if sum := sha256.Sum256(got); err != nil || hex.EncodeToString(sum[:]) != c.SHA256 || contentType != batch[n].ContentType {
				t.Errorf("%s: %q (%s) comes back as %q, %v", c.Case, batch[n].Payload, contentType, got, err)
			}
		}
	}
	if contentType, got, err := d.Payload(t.Context(), ten, id.Event.Format(rs[len(cases)].ID)); err != nil || len(got) != 0 || contentType != "application/json" {
		t.Errorf("no payload comes back as %q (%s), %v", got, contentType, err)
	}
}

func TestALargeBatchIsOneTransaction(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	for range 11 {
		d.endpoint(t, ten, "")
	}
	batch := make([]intake.Event, 1000)
	for n := range batch {
		batch[n] = intake.Event{Type: "t", Payload: []byte(strings.Repeat("p", 20_000))} // 20 MB: several chunks
	}
	rs := d.accept(t, ten, "", batch...)
	if !slices.IsSortedFunc(rs, func(a, b intake.Receipt) int { return int(a.ID.N - b.ID.N) }) {
		t.Error("the ids of a batch are not in its order")
	}
	if n := d.count(t, `SELECT count(DISTINCT xmin::text) FROM (SELECT xmin FROM events UNION ALL SELECT xmin FROM deliveries) x`); n != 1 {
		t.Errorf("%d transactions", n)
	}
	if n := d.count(t, `SELECT count(*) FROM deliveries`); n != 11_000 {
		t.Errorf("%d deliveries", n)
	}
	d.whole(t)
}

func TestABatchIsAllOrNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	taken, other, fresh := order(1), order(2), order(3)
	taken.UID, other.UID, fresh.UID = "taken", "taken", "fresh"
	d.accept(t, ten, "", taken)
	_, _, err := d.Accept(t.Context(), ten, "key", []intake.Event{fresh, other, order(4)})
	wantPointers(t, err, "/events/1/uid")
	if n := d.count(t, `SELECT count(*) FROM events`); n != 1 {
		t.Errorf("%d events", n)
	}
	if n := d.count(t, `SELECT count(*) FROM idempotency_keys`); n != 1 {
		t.Errorf("%d idempotency rows", n)
	}
	d.whole(t)
}

// A tenant that was named by its uid has to have it when the events are stored.
func TestATenantIsConfirmedByItsUID(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	take := func(uid string) error {
		_, _, err := d.Take(t.Context(), intake.Call{Tenant: ten, TenantUID: uid, Events: []intake.Event{order(1)}})
		return err
	}
	wantCode(t, take("acme"), fault.NotFound) // it has none
	d.exec(t, `UPDATE tenants SET uid = 'acme' WHERE id = $1`, ten.N)
	wantCode(t, take("acme"), "")
	wantCode(t, take(""), "")
	wantCode(t, take("other"), fault.NotFound)
	if n := d.count(t, `SELECT count(*) FROM events`); n != 2 {
		t.Errorf("%d events", n)
	}
}
