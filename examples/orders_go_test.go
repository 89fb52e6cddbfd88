package examples_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/apitest"
	"github.com/postrider/postrider/internal/pgtest"
)

// orders starts the shop with a login of its own, which may do no more than its README says.
func orders(t *testing.T, tenant string) *program {
	t.Helper()
	return launch(t, map[string]string{"DATABASE_URL": shopLogin(t), "ADDR": "127.0.0.1:0", "TENANT": tenant}, filepath.Join(built, "orders-go"))
}

// shopLogin makes the login where it is missing, and gives its URL. Logins are the server's, so it is named after the database.
func shopLogin(t *testing.T) string {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), pgtest.AdminURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(t.Context()) }()
	at, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	database := strings.TrimPrefix(at.Path, "/")
	login := "shop_" + database
	at.User = url.UserPassword(login, "a-password")
	var there bool
	if err := admin.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)`, login).Scan(&there); err != nil || there {
		if err != nil {
			t.Fatal(err)
		}
		return at.String()
	}
	_, err = admin.Exec(t.Context(), fmt.Sprintf(
		`CREATE ROLE %[1]s LOGIN PASSWORD 'a-password'; GRANT postrider_producer TO %[1]s; GRANT CREATE, CONNECT ON DATABASE %[2]s TO %[1]s`, login, database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dropLogin(t, login) })
	return at.String()
}

// dropLogin takes away what the login made as well: the database is dropped later.
func dropLogin(t *testing.T, login string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	admin, err := pgx.Connect(ctx, pgtest.AdminURL(t))
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = admin.Close(ctx) }()
	if _, err := admin.Exec(ctx, `DROP OWNED BY `+login+` CASCADE; DROP ROLE `+login); err != nil {
		t.Error(err)
	}
}

func counts(t *testing.T, db *pgxpool.Pool) (stored, events int) {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), pgtest.AdminURL(t)) // the owner of Postrider's tables may not look into the shop's
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(t.Context()) }()
	if err := admin.QueryRow(t.Context(), `SELECT count(*) FROM shop.orders`).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow(t.Context(), `SELECT count(*) FROM postrider.events`).Scan(&events); err != nil {
		t.Fatal(err)
	}
	return stored, events
}

func order(t *testing.T, p *program, body string) (status int, answer string) {
	t.Helper()
	return ask(t, "POST", p.url+"/orders", body, nil)
}

const ticket = `{"item": "ticket <R&D>", "amount": "49.90"}`

// From the order to the webhook, by a login that may touch no table of Postrider's.
func TestOrders(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- r.Header.Get("webhook-id") + " " + r.Header.Get("postrider-event-type") + " " + string(body)
	}))
	t.Cleanup(receiver.Close)
	server := postrider(t)
	call(t, 201, "POST", server.url+"/v1/tenants", `{"uid":"demo","name":"Demo"}`)
	call(t, 201, "POST", server.url+"/v1/tenants/demo/endpoints", fmt.Sprintf(`{"url":%q}`, receiver.URL))
	p := orders(t, "demo")
	status, answer := order(t, p, ticket)
	var made struct {
		Order int64
		Event string
	}
	if err := json.Unmarshal([]byte(answer), &made); status != 201 || err != nil {
		t.Fatal(status, answer, err)
	}
	want := made.Event + ` order.paid {"id":1,"item":"ticket \u003cR\u0026D\u003e","amount":"49.90"}`
	select {
	case delivered := <-got:
		if delivered != want {
			t.Errorf("%s, want %s", delivered, want)
		}
	case <-time.After(patience):
		t.Error("nothing was delivered")
	}
	for body, want := range map[string]int{
		`{"item": "ticket"`: 400, `{"item": "", "amount": "1.00"}`: 422, `{"item": "ticket", "amount": "a lot"}`: 422,
		`{"item": "` + strings.Repeat("a", 65<<10) + `"}`: 400,
	} {
		if status, answer := order(t, p, body); status != want {
			t.Errorf("%.40s: %d %s", body, status, answer)
		}
	}
	db, err := pgx.Connect(t.Context(), shopLogin(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	if _, err := db.Exec(t.Context(), `SELECT FROM postrider.events`); err == nil {
		t.Error("the shop's login reads Postrider's tables")
	}
}

// An event that is not taken takes its order with it.
func TestOrdersWithoutTenant(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	p := orders(t, "nobody")
	if status, answer := order(t, p, ticket); status != 500 {
		t.Errorf("%d %s", status, answer)
	}
	if stored, events := counts(t, s.DB); stored != 0 || events != 0 {
		t.Errorf("%d orders, %d events", stored, events)
	}
	if !strings.Contains(p.log(), "/tenant") {
		t.Errorf("the log does not say what was wrong: %s", p.log())
	}
}

// The shop is killed at work, again and again: each order has its event, each event its order, and what was answered is there.
func TestOrdersIsKilledAtWork(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	var answered atomic.Int32
	for range 5 {
		p := orders(t, "demo")
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for { // until it is gone
					status, answer := order(t, p, ticket)
					if status == 0 {
						return
					}
					if status != 201 {
						t.Errorf("%d %s", status, answer)
						return
					}
					answered.Add(1)
				}
			})
		}
		for range 5 { // it has begun
			if status, _ := order(t, p, ticket); status == 201 {
				answered.Add(1)
			}
		}
		p.kill()
		all.Wait()
	}
	eventually(t, func() bool { // a commit that was on its way when the shop died may come a moment later
		stored, events := counts(t, s.DB)
		return stored == events && stored >= int(answered.Load()) && stored > 0
	})
	t.Logf("%d were answered", answered.Load())
}
