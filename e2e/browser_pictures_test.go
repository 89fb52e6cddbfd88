//go:build browser

package e2e

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/internal/stats"
)

var _ = flag.Bool("screenshots", false, "scripts/browser runs TestScreenshots for it")

// shop is a tenant of the pictures, with what its receiver answers.
type shop struct {
	name, host string
	status     int
	schedule   []string
	share      int // of the attempts in the last hour, how many in a hundred succeed
}

var shops = []shop{
	{"Harbour Hall", "hooks.harbourhall.example", 204, nil, 100},
	{"Northside Live", "api.northside-live.example", 200, nil, 99},
	{"Kino Astra", "tickets.kino-astra.example", 200, nil, 100},
	{"Sommerfest Open Air", "shop.sommerfest.example", 503, []string{"1s", "2s", "1h", "6h"}, 61},
	{"Old Mill Theatre", "boxoffice.oldmill.example", 401, nil, 0},
	{"Jazz in the Park", "webhooks.jazzpark.example", 410, nil, 0},
	{"City Museum", "www.citymuseum.example", 302, []string{"2s", "30m"}, 40},
}

// TestScreenshots takes the pictures of docs/screenshots: of a day as operators know it, most of it good. The receivers are
// one of ours that is called by other names once all was sent; the figures of the last hour are made up.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	there := internet(t)
	with := settings{"DATABASE_URL": pgtest.URL(t), "DELIVERY_RETRY_SCHEDULE": "1m,5m,30m,2h,6h", "PORTAL_NAME": "Seatwise webhooks", "ALERTS_AFTER_FAILURES": "3"}
	p := start(t, with)
	t.Cleanup(func() { p.stop() })
	for _, kind := range [][2]string{
		{"order.paid", "An order was paid. Tickets are valid from now on."},
		{"order.refunded", "An order was refunded, in whole or in part."},
		{"ticket.scanned", "A ticket was scanned at the gate."},
		{"event.sold_out", "The last seat of an event was sold."},
	} {
		p.want(http.StatusCreated, http.MethodPut, "/v1/event-types/"+kind[0], object{
			"description": kind[1], "schema": object{"type": "object", "required": []string{"id"}}, "example": object{"id": "A-1001", "amount": "49.90", "currency": "EUR"},
		})
	}
	told := map[string]any{"keys": map[string]string{"admin": adminKey}}
	ends := map[string]id.ID{}
	for i, s := range shops {
		tenant := p.want(http.StatusCreated, http.MethodPost, "/v1/tenants", object{"name": s.name, "contact_email": "it@" + s.host}).text("id")
		body := object{"description": "Orders and scans", "event_types": []string{"order.*", "ticket.scanned", "event.sold_out"}}
		if s.schedule != nil {
			body["retry_schedule"] = s.schedule
		}
		e := p.endpoint(tenant, there+s.host+"/webhooks/seatwise", body)
		parsed, err := id.Endpoint.Parse(e.text("id"))
		if err != nil {
			t.Fatal(err)
		}
		ends[s.host] = parsed
		told[fmt.Sprint("tenant", i)], told[fmt.Sprint("endpoint", i)] = tenant, e.text("id")
	}
	makeUpTheHour(t, ends)
	first := p.send(told["tenant3"].(string), "order.paid", object{"id": "A-4699", "amount": "78.00", "currency": "EUR", "seats": []string{"C-12", "C-13"}})
	eventually(t, func() string { // before so much fails that it is only probed
		all := p.deliveries(first)
		if len(all) == 1 && all[0].number("attempts") >= 3 {
			told["delivery"] = all[0].text("id")
			return ""
		}
		return "it has not failed three times: " + sprint(all)
	})
	for n := range 40 {
		for i := range shops {
			if n < 40/(i+1) {
				p.send(told[fmt.Sprint("tenant", i)].(string), []string{"order.paid", "ticket.scanned", "order.refunded"}[n%3], object{
					"id": fmt.Sprintf("A-%d", 4700+n), "amount": fmt.Sprintf("%d.90", 19+n), "currency": "EUR", "seats": []string{"C-14", "C-15"},
				})
			}
		}
	}
	eventually(t, func() string {
		if all := p.get("/v1/deliveries?state=succeeded&limit=100").list("data"); len(all) < 60 {
			return fmt.Sprintf("only %d have succeeded", len(all))
		}
		return ""
	})
	p.stop() // what is sent after this would go to those names
	for _, statement := range []string{
		`UPDATE postrider.endpoints SET url = replace(url, $1, 'https://')`, `UPDATE postrider.endpoint_versions SET url = replace(url, $1, 'https://')`,
	} {
		if _, err := pgtest.Pool(t).Exec(t.Context(), statement, there); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pgtest.Pool(t).Exec(t.Context(), `UPDATE postrider.attempts SET address = '203.0.113.7:443'`); err != nil {
		t.Fatal(err)
	}
	p = startAs(t, "api", with)
	told["base"] = p.url
	drive(t, "pictures.mjs", told)
}

// internet is a receiver that answers as those of all shops, after about as long as they take. It gives the URL below which
// each has a folder.
func internet(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		wait := time.NewTimer(time.Duration(20+rand.IntN(90)) * time.Millisecond)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-r.Context().Done():
		}
		for _, s := range shops {
			if !strings.HasPrefix(r.URL.Path, "/"+s.host) {
				continue
			}
			switch w.Header().Set("Content-Type", "application/json"); s.status {
			case http.StatusFound:
				w.Header().Set("Location", "https://tickets.citymuseum.example/webhooks/seatwise")
			case http.StatusServiceUnavailable:
				w.Header().Set("Server", "nginx")
			}
			w.WriteHeader(s.status)
			if s.status >= http.StatusBadRequest {
				_, _ = fmt.Fprintf(w, `{"error":%q,"request":"7f3a91"}`, strings.ToLower(http.StatusText(s.status)))
			}
		}
	}))
	t.Cleanup(server.Close)
	return server.URL + "/"
}

// makeUpTheHour counts attempts of the last hour that nobody made.
func makeUpTheHour(t *testing.T, ends map[string]id.ID) {
	t.Helper()
	db := pgtest.Pool(t)
	now := time.Now()
	tally := stats.NewTally(stats.TallyDeps{DB: db, IDs: id.NewGenerator(9, time.Now), Now: time.Now})
	random := rand.New(rand.NewPCG(1, 2))
	for minute := 60; minute > 0; minute-- {
		at := now.Add(-time.Duration(minute) * time.Minute)
		for i, s := range shops {
			for range 24/(i+1) + random.IntN(8) {
				outcome, took := dispatcher.Succeeded, time.Duration(30+random.IntN(60)+random.IntN(40)*random.IntN(12))*time.Millisecond
				if random.IntN(100) >= s.share {
					outcome = map[int]dispatcher.Outcome{401: dispatcher.Unauthorized, 503: dispatcher.Retryable, 302: dispatcher.Redirected, 410: dispatcher.Gone}[s.status]
				}
				if outcome == dispatcher.Succeeded || i > 2 && random.IntN(6) == 0 {
					tally.Attempt(ends[s.host], outcome, took, at)
					tally.Finished(ends[s.host], outcome, at)
				}
			}
		}
	}
	if err := tally.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}
