package dispatcher

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

func TestDueDeliveryIsPostedSignedAndRecorded(t *testing.T) {
	t.Parallel()
	const payload = `{ "b":1,"a": 1E+2 }`
	var seen *http.Request
	var body []byte
	w := newWorld(t, func(r *http.Request) (*http.Response, error) {
		seen = r
		body, _ = io.ReadAll(r.Body)
		return reply(202, header("X-Said", "thanks"), strings.Repeat("x", 100))
	})
	endpoint := w.endpoint()
	delivery := w.enqueue(endpoint, payload)
	if n := w.round(w.d); n != 1 {
		t.Fatalf("claimed %d", n)
	}

	if string(body) != payload || seen.ContentLength != int64(len(payload)) {
		t.Errorf("body %q of length %d", body, seen.ContentLength)
	}
	secrets, err := w.store.Targets(t.Context(), []id.ID{endpoint})
	if err != nil {
		t.Fatal(err)
	}
	get := func(name string) string { return strings.Join(seen.Header[name], ",") }
	secret := secrets[endpoint].Secrets[0].Reveal()
	if err := signer.Verify(signer.Standard, "", secret, get, body, time.Now(), 5*time.Minute); err != nil {
		t.Errorf("signature: %v", err)
	}
	if get("postrider-attempt") != "1" || get("postrider-delivery-id") != id.Delivery.Format(delivery) ||
		get("postrider-event-type") != "order.paid" || get("User-Agent") != "Postrider/test" ||
		get("Accept-Encoding") != "identity" || get("Content-Type") != "application/json" {
		t.Errorf("headers: %v", seen.Header)
	}

	got := w.get(delivery)
	if got.State != StateSucceeded || got.Attempts != 1 || *got.LastStatus != 202 || got.FinishedAt == nil {
		t.Errorf("delivery: %+v", got)
	}
	attempts := w.attempts(delivery)
	if len(attempts) != 1 {
		t.Fatalf("attempts: %+v", attempts)
	}
	a := attempts[0]
	if a.Outcome != Succeeded || a.Number != 1 || len(a.ResponseBody) != 64 || !a.Truncated || a.URL != "https://receiver.test/hook" {
		t.Errorf("attempt: %+v", a)
	}
	for _, h := range a.RequestHeaders {
		if sent := get(h.Name); sent != "" && sent != h.Value {
			t.Errorf("history shows %s: %q, sent was %q", h.Name, h.Value, sent)
		}
	}
	if n := w.count(`SELECT count(*) FROM deliveries`); n != 0 {
		t.Errorf("%d rows stay in the hot table", n)
	}
}

func TestFailedDeliveryWaitsForItsScheduleAndIsExhaustedAfterSix(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(500))
	delivery := w.enqueue(w.endpoint(), `{}`)
	for i, delay := range DefaultSchedule {
		if n := w.round(w.d); n != 1 {
			t.Fatalf("attempt %d: claimed %d", i+1, n)
		}
		got := w.get(delivery)
		if got.State != Pending || got.Attempts != i+1 || !got.NextAttemptAt.Equal(w.clock().Add(delay)) {
			t.Fatalf("after attempt %d: %+v", i+1, got)
		}
		w.advance(delay - time.Second)
		if n := w.round(w.d); n != 0 {
			t.Fatalf("claimed %d a second before its time", n)
		}
		w.advance(time.Second)
	}
	w.round(w.d)
	if got := w.get(delivery); got.State != StateFailed || got.Reason != ReasonExhausted || got.Attempts != 6 {
		t.Errorf("in the end: %+v", got)
	}
	if n := w.count(`SELECT count(*) FROM attempts WHERE outcome = 'retryable' AND status = 500`); n != 6 {
		t.Errorf("history has %d attempts", n)
	}
	if n := w.count(`SELECT count FROM alerts WHERE kind = 'delivery.failed' AND state = 'open'`); n != 2 {
		t.Errorf("the alert counts %d findings, want the five failures and the end", n)
	}

	// A manual retry starts afresh, and its success resolves the alert.
	if _, err := w.d.deps.Desk.Retry(t.Context(), delivery); err != nil {
		t.Fatal(err)
	}
	w.d.deps.Doer = always(200)
	w.round(w.d)
	if got := w.get(delivery); got.State != StateSucceeded || got.Attempts != 7 {
		t.Errorf("after the manual retry: %+v", got)
	}
	if n := w.count(`SELECT count(*) FROM alerts WHERE state = 'resolved'`); n != 1 {
		t.Error("the success did not resolve the alert")
	}
	if n := w.count(`SELECT count(*) FROM endpoints WHERE consecutive_failures = 0`); n != 1 {
		t.Error("the success did not end the endpoint's failures")
	}
}

func TestGoneKillsTheEndpointAndCancelsTheRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(410))
	endpoint := w.endpoint()
	first := w.enqueue(endpoint, `{}`)
	w.round(w.d)
	w.d.deps.Doer = always(200)
	// One that came in while the endpoint died, and one that waits for later, as a fan-out that saw it alive would leave.
	late := w.enqueue(endpoint, `{}`)
	w.advance(time.Minute)
	if n := w.round(w.d); n != 0 {
		t.Errorf("claimed %d for a dead endpoint", n)
	}
	w.settle(w.d)
	if got := w.get(first); got.State != StateFailed || got.Reason != ReasonGone {
		t.Errorf("the one that heard 410: %+v", got)
	}
	if got := w.get(late); got.State != StateCancelled || got.Reason != ReasonEndpointDead {
		t.Errorf("the other: %+v", got)
	}
	if n := w.count(`SELECT count(*) FROM audit_log WHERE action = 'endpoint.status_changed' AND actor = 'system' AND actor_name = 'dispatcher'
		AND details->'changes'->'status'->>'new' = 'dead' AND details->>'reason' = 'gone'`); n != 1 {
		t.Errorf("the audit log tells of it %d times", n)
	}
	if n := w.count(`SELECT count(*) FROM alerts WHERE kind = 'endpoint.dead' AND state = 'open'`); n != 1 {
		t.Error("nobody is told")
	}
}

func TestReceiverMaySwitchItselfOffAndWhatIsHeldGoesOnAfterwards(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(*http.Request) (*http.Response, error) {
		return reply(200, header("Webhook-Delivery", "disable"), "")
	})
	endpoint := w.endpoint()
	w.enqueue(endpoint, `{}`)
	w.round(w.d)
	held := w.enqueue(endpoint, `{}`)
	if n := w.round(w.d); n != 0 {
		t.Errorf("claimed %d for a disabled endpoint", n)
	}
	if got := w.get(held); got.State != Held {
		t.Errorf("while disabled: %+v", got)
	}
	enabled := subscriptions.Enabled
	_, err := w.store.UpdateEndpoint(t.Context(), w.tenant, id.Endpoint.Format(endpoint), "", subscriptions.EndpointPatch{
		Status: &enabled,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.d.targets.forget(endpoint)
	w.round(w.d)
	if got := w.get(held); got.State != StateSucceeded {
		t.Errorf("after enabling: %+v", got)
	}
}

func TestEndpointsCapAndRoundsShareTheRoom(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := newWorld(t, g.Do)
	busy, other := w.endpoint(), w.endpoint()
	for range 30 {
		w.enqueue(busy, `{}`)
	}
	if n, err := w.d.claimOnce(t.Context(), t.Context(), allShards); err != nil || n != 10 {
		t.Fatalf("claimed %d, %v; the endpoint's cap is 10", n, err)
	}
	w.enqueue(other, `{}`)
	if n, err := w.d.claimOnce(t.Context(), t.Context(), allShards); err != nil || n != 1 {
		t.Fatalf("claimed %d, %v; the other endpoint is free", n, err)
	}
	for range 11 {
		<-g.arrived
		g.answer <- 200
	}
	w.settle(w.d)
	if n := w.count(`SELECT count(*) FROM deliveries_finished WHERE state = 'succeeded'`); n != 11 {
		t.Errorf("%d succeeded", n)
	}
}

// An endpoint's own max_in_flight holds from the first claim on, below and above the default.
func TestEndpointsOwnCapHolds(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := newWorld(t, g.Do)
	for _, limit := range []int{1, 15} {
		e, _, err := w.store.CreateEndpoint(t.Context(), w.tenant, subscriptions.NewEndpoint{
			URL: "https://receiver.test/hook", MaxInFlight: &limit,
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			w.enqueue(e.ID, `{}`)
		}
	}
	for range 3 {
		if _, err := w.d.claimOnce(t.Context(), t.Context(), allShards); err != nil {
			t.Fatal(err)
		}
		w.d.targets.known = map[id.ID]knownTarget{} // as a poll's sweep leaves it
	}
	if n := w.count(`SELECT count(*) FROM deliveries WHERE state = 'in_flight'`); n != 16 {
		t.Errorf("%d are in flight, the caps are 1 and 15", n)
	}
	for range 16 {
		<-g.arrived
		g.answer <- 200
	}
	w.settle(w.d)
}

// With a wrong key in secrets.keys nothing is sent and nothing is lost: the deliveries wait for the right one.
func TestEndpointWhoseSecretDoesNotOpenWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	endpoint := w.endpoint()
	delivery := w.enqueue(endpoint, `{}`)
	if _, err := w.db.Exec(t.Context(), `UPDATE endpoint_secrets SET key_id = 'another'`); err != nil {
		t.Fatal(err)
	}
	if n := w.round(w.d); n != 0 {
		t.Errorf("claimed %d", n)
	}
	if got := w.get(delivery); got.State != Pending || got.Attempts != 0 {
		t.Errorf("%+v", got)
	}
}

// largeWithoutMemory makes a delivery whose payload is too large to come with a claim, and takes all memory for such.
func (w *world) largeWithoutMemory() (endpoint, delivery id.ID) {
	w.Helper()
	endpoint = w.endpoint()
	delivery = w.enqueue(endpoint, `"`+strings.Repeat("x", 2*inlinePayload)+`"`)
	if err := w.d.memory.Acquire(w.Context(), largePayloads); err != nil {
		w.Fatal(err)
	}
	return endpoint, delivery
}

// A payload that waited for memory is sent to where its endpoint is now, or not at all.
func TestTargetIsLookedAtAgainAfterAWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	endpoint, delivery := w.largeWithoutMemory()
	known, err := w.d.targets.fresh(t.Context(), []id.ID{endpoint})
	if err != nil {
		t.Fatal(err)
	}
	disabled := subscriptions.Disabled
	_, err = w.store.UpdateEndpoint(t.Context(), w.tenant, id.Endpoint.Format(endpoint), "", subscriptions.EndpointPatch{Status: &disabled})
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.d.claim(t.Context(), map[int16][]wish{endpoint.Shard: {{endpoint: endpoint.N, slots: 1}}})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	got[0].leaseEnds = time.Now().Add(time.Hour)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.d.inFlight.Add(1)
		w.d.deliver(t.Context(), got[0], known[0], time.Now().Add(-2*targetsMaxAge))
	}()
	w.d.targets.forget(endpoint)
	w.d.memory.Release(largePayloads)
	<-done
	w.settle(w.d)
	if got := w.get(delivery); got.State != Held || got.Attempts != 0 {
		t.Errorf("%+v", got)
	}
}

// No memory in time for the lease: the delivery goes back, and nothing is counted.
func TestPayloadThatFindsNoMemoryGoesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	_, delivery := w.largeWithoutMemory()
	w.d.cfg.Lease = 0 // over before it began
	w.round(w.d)
	if got := w.get(delivery); got.State != Pending || got.Attempts != 0 {
		t.Errorf("%+v", got)
	}
	if n := w.count(`SELECT count(*) FROM attempts`); n != 0 {
		t.Errorf("%d attempts", n)
	}
}

func TestLargePayloadIsReadWhenItIsSent(t *testing.T) {
	t.Parallel()
	large := `"` + strings.Repeat("x", 3*inlinePayload) + `"`
	var got string
	w := newWorld(t, func(r *http.Request) (*http.Response, error) {
		b, err := io.ReadAll(r.Body)
		got = string(b)
		if err != nil {
			return nil, err
		}
		return reply(200, nil, "")
	})
	w.enqueue(w.endpoint(), large)
	w.round(w.d)
	if got != large {
		t.Errorf("%d bytes arrived, of %d", len(got), len(large))
	}
}

func TestDeliveryWhoseEventIsGoneIsParked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	endpoint := w.endpoint()
	delivery := id.ID{Shard: endpoint.Shard, N: w.ids.Next()}
	err := pg.InTx(t.Context(), w.db, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		QueueNew(b, []NewDelivery{{
			Shard: endpoint.Shard, ID: delivery.N, Tenant: w.tenant.ID.N, Event: w.ids.Next(), Endpoint: endpoint.N, DueAt: w.clock(),
		}})
		return tx.SendBatch(t.Context(), b).Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	fine := w.enqueue(endpoint, `{}`)
	w.round(w.d)
	if got := w.get(delivery); got.State != StateFailed || got.Reason != ReasonUnsendable || got.Attempts != 0 {
		t.Errorf("parked: %+v", got)
	}
	if got := w.get(fine); got.State != StateSucceeded {
		t.Errorf("its neighbour: %+v", got)
	}
}
