package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/pgtest"
)

// producing enqueues in a transaction with a row of the producer's own.
func producing(t *testing.T, db *pgxpool.Pool, tenant, payload string) (event string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) (err error) {
		if _, err := tx.Exec(t.Context(), `INSERT INTO orders VALUES ($1)`, payload); err != nil {
			return err
		}
		event, err = client.EnqueueTx(t.Context(), tx, client.Event{Tenant: tenant, Type: "order.paid", Payload: []byte(payload)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return event
}

func producersDatabase(t *testing.T) *pgxpool.Pool {
	t.Helper()
	db := pgtest.Pool(t)
	if _, err := db.Exec(t.Context(), `CREATE TABLE orders (payload text)`); err != nil {
		t.Fatal(err)
	}
	return db
}

// What a producer commits is delivered, also what it committed while nothing ran. What it rolls back never was.
func TestEnqueueBySQL(t *testing.T) {
	t.Parallel()
	db := producersDatabase(t)
	r := receive(t, always(200))
	p := start(t, nil)
	tenant := p.tenant()
	p.endpoint(tenant, r.url("/hook"), nil)
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.EnqueueTx(t.Context(), tx, client.Event{Tenant: tenant, Type: "order.paid", Payload: []byte("never")}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	payloads := []string{"{ \"n\": 1.0 }", "{\"n\": 2 }\n"}
	p.await(producing(t, db, tenant, payloads[0]), "succeeded")
	if text := string(p.do(http.MethodGet, "/metrics", "", nil).body); !strings.Contains(text, "\npostrider_events_accepted_total 1\n") {
		t.Error("it is not counted as accepted")
	}
	p.kill()

	while := producing(t, db, tenant, payloads[1])
	p = serve(t, nil)
	p.await(while, "succeeded")
	if got := p.get("/v1/tenants/" + tenant + "/events/" + while); got.text("status") != "succeeded" || got.number("fan_out") != 1 {
		t.Errorf("it is %s", sprint(got))
	}
	requests := r.requests()
	if len(requests) != 2 || string(requests[0].body) != payloads[0] || string(requests[1].body) != payloads[1] {
		t.Errorf("%d requests: %+v", len(requests), requests)
	}
	if n := len(p.get("/v1/tenants/" + tenant + "/events").list("data")); n != 2 {
		t.Errorf("%d events", n)
	}
}

// Where nobody fans out yet, the API says what is to come, and fans out what is to be cancelled or replayed.
func TestEventsBeforeTheirFanOut(t *testing.T) {
	t.Parallel()
	db := producersDatabase(t)
	r := receive(t, always(200))
	p := startAs(t, "api", nil)
	t.Cleanup(p.stop)
	tenant := p.tenant()
	p.endpoint(tenant, r.url("/hook"), nil)
	cancelled, replayed := producing(t, db, tenant, "1"), producing(t, db, tenant, "2")
	events := "/v1/tenants/" + tenant + "/events/"
	for _, event := range []string{cancelled, replayed} {
		if got := p.get(events + event); got.text("status") != "queued" || got.number("fan_out") != 0 || len(got.list("deliveries")) != 0 {
			t.Errorf("it is %s", sprint(got))
		}
	}
	if got := p.want(http.StatusOK, http.MethodPost, events+cancelled+"/cancel", nil); got.text("status") != "cancelled" || len(got.list("deliveries")) != 1 {
		t.Errorf("it is %s", sprint(got))
	}
	p.want(http.StatusAccepted, http.MethodPost, events+replayed+"/replay", nil)
	if got := p.get(events + replayed); got.text("status") != "queued" || len(got.list("deliveries")) != 1 {
		t.Errorf("it is %s", sprint(got))
	}
}
