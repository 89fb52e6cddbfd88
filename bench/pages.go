package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/id"
)

const (
	// pageLimit is what a page may take at the 95th percentile.
	pageLimit = 50 * time.Millisecond
	// pageTimes is how often a page's first part is asked for, and pageDepth how many pages after it are followed.
	pageTimes, pageDepth = 12, 12
)

// page is something that people open. Its measure is the time that the server takes for it.
type page struct {
	name, path string
	by         visitor
}

// measurePages asks for pages, first ones and those that follow them, in a database that has a month of history.
func (b *bench) measurePages(ctx context.Context) ([]measurement, error) {
	if err := b.openBig(ctx); err != nil {
		return nil, err
	}
	pages, err := b.big.pages(ctx)
	if err != nil {
		return nil, err
	}
	seen, err := b.big.sitePages(ctx)
	if err != nil {
		return nil, err
	}
	pages = append(pages, seen...)
	var out []measurement
	for _, p := range pages {
		before, err := b.big.pgCPUTime(ctx)
		if err != nil {
			return nil, err
		}
		own := cpuTime()
		took, seen, err := timePage(ctx, p.by, p.path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		own = cpuTime() - own
		after, err := b.big.pgCPUTime(ctx)
		if err != nil {
			return nil, err
		}
		fmt.Printf("  %-60s %3d pages, %5d things, p50 %5.1f ms, CPU of PostgreSQL %5.1f and ours %4.1f ms a page\n",
			p.name, len(took), seen, ms(took[len(took)/2]), ms((after-before)/time.Duration(len(took))), ms(own/time.Duration(len(took))))
		p95 := took[(len(took)*95+99)/100-1]
		out = append(out, measurement{
			name: p.name + ", p95 / 50 ms", got: float64(p95) / float64(pageLimit), unit: "×", want: atMost(1),
		})
	}
	return out, nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// openBig makes the database, which takes some minutes.
func (b *bench) openBig(ctx context.Context) error {
	if b.big != nil {
		return nil
	}
	var err error
	if b.big, err = b.beside(ctx, "bench_pages"); err != nil {
		return err
	}
	begun := time.Now()
	fmt.Printf("  filling %d attempts of %d deliveries\n", b.options.pages/4*5, b.options.pages)
	if err := b.big.fillPages(ctx, b.options.pages); err != nil {
		return fmt.Errorf("fill a month of history: %w", err)
	}
	fmt.Printf("  (filling took %s)\n", time.Since(begun).Round(time.Second))
	return nil
}

// visitor is who asks for pages, and reads in an answer how many things it has and where the list goes on ("": nowhere).
type visitor struct {
	handler     http.Handler
	name, value string // of the header that says who it is
	read        func(path string, answer []byte) (next string, seen int, err error)
}

// apiVisitor asks the API with the operator's key.
func (w *world) apiVisitor() visitor {
	return visitor{w.server.Handler, "Authorization", "Bearer " + w.apiKey, func(path string, answer []byte) (string, int, error) {
		var body struct {
			Data []struct{} `json:"data"`
			Next *string    `json:"next_cursor"`
		}
		if err := json.Unmarshal(answer, &body); err != nil || body.Next == nil {
			return "", len(body.Data), err
		}
		path, _, _ = strings.Cut(path, "&cursor=")
		return path + "&cursor=" + *body.Next, len(body.Data), nil
	}}
}

// timePage asks for a page and those after it and gives how long each took, the quickest first.
func timePage(ctx context.Context, by visitor, path string) (took []time.Duration, seen int, err error) {
	get := func(at string) (next string, err error) {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, at, nil)
		r.Header.Set(by.name, by.value)
		answer := httptest.NewRecorder()
		begun := time.Now()
		by.handler.ServeHTTP(answer, r)
		took = append(took, time.Since(begun))
		if answer.Code != http.StatusOK {
			return "", fmt.Errorf("GET %s: %d %s", at, answer.Code, answer.Body)
		}
		next, n, err := by.read(at, answer.Body.Bytes())
		if err != nil {
			return "", fmt.Errorf("GET %s: %w", at, err)
		}
		seen += n
		return next, nil
	}
	for range pageTimes {
		if _, err = get(path); err != nil {
			return nil, 0, err
		}
	}
	seen = 0
	for at, n := path, 0; at != "" && n <= pageDepth; n++ {
		if at, err = get(at); err != nil {
			return nil, 0, err
		}
	}
	slices.SortFunc(took, cmp.Compare[time.Duration])
	return took, seen, nil
}

// pages are all lists by each of their filters: with many matches, few, and none.
func (w *world) pages(ctx context.Context) ([]page, error) {
	var tenants, endpoints [2]string // one that has much, one that has little
	for i, n := range []int{0, pagesTenants - 1} {
		t, err := w.store.Tenant(ctx, fmt.Sprint("customer-", n))
		if err != nil {
			return nil, err
		}
		e, err := w.store.Endpoint(ctx, t, fmt.Sprintf("hook-%s-3", *t.UID))
		if err != nil {
			return nil, err
		}
		tenants[i], endpoints[i] = id.Tenant.Format(t.ID), id.Endpoint.Format(e.ID)
	}
	by := w.apiVisitor()
	newPage := func(name, path string, query ...string) page { return newPage(by, name, path, query...) }
	at := func(ago time.Duration) string { return w.clock.Now().Add(-ago).UTC().Format(time.RFC3339) }
	var out []page
	for _, of := range []struct {
		name  string
		query []string
	}{
		{"", nil},
		{", a large tenant", []string{"tenant", tenants[0]}},
		{", a small tenant", []string{"tenant", tenants[1]}},
		{", an endpoint", []string{"endpoint", endpoints[0]}},
		{", a small endpoint", []string{"endpoint", endpoints[1]}},
		{", an old hour", []string{"since", at(pagesSpan/2 + time.Hour), "until", at(pagesSpan / 2)}},
		{", before a day", []string{"until", at(pagesSpan / 2)}},
	} {
		for _, f := range deliveriesBy {
			out = append(out, newPage("deliveries"+f.name+of.name, "/v1/deliveries", slices.Concat(f.query, of.query)...))
		}
	}
	for i, name := range []string{"a large tenant", "a small tenant"} {
		for _, f := range eventsBy {
			out = append(out, newPage("events of "+name+f.name, "/v1/tenants/"+tenants[i]+"/events", f.query...))
		}
		out = append(out, newPage("endpoints of "+name, "/v1/tenants/"+tenants[i]+"/endpoints"))
	}
	return append(out,
		newPage("tenants", "/v1/tenants"),
		newPage("alerts", "/v1/alerts"),
		newPage("alerts: open", "/v1/alerts", "state", "open"),
		newPage("alerts: resolved, a tenant", "/v1/alerts", "state", "resolved", "tenant", tenants[0]),
		newPage("audit log", "/v1/audit-log"),
		newPage("audit log: a rare action", "/v1/audit-log", "action", "endpoint.deleted"),
		newPage("audit log: nobody", "/v1/audit-log", "actor", "nobody"),
		newPage("audit log: a tenant", "/v1/audit-log", "tenant", tenants[0]),
	), nil
}

// newPage makes one of a path and the names and values of its query.
func newPage(by visitor, name, path string, query ...string) page {
	v := url.Values{"limit": {"50"}}
	for i := 0; i+1 < len(query); i += 2 {
		v.Set(query[i], query[i+1])
	}
	return page{name, path + "?" + v.Encode(), by}
}

type by struct {
	name  string
	query []string
}

var deliveriesBy = []by{
	{"", nil},
	{": failed", []string{"state", "failed"}},
	{": waiting", []string{"state", "scheduled"}},
	{": held", []string{"state", "held"}},
	{": of a rare outcome", []string{"outcome", "tls_error"}},
	{": of two outcomes", []string{"outcome", "timeout,blocked"}},
	{": of no outcome there is", []string{"outcome", "gone"}},
	{": of a type", []string{"event_type", "order.step3"}},
	{": of a rare type", []string{"event_type", rareType}},
	{": of no type there is", []string{"event_type", "no.such"}},
	{": failed, of a type", []string{"state", "failed", "event_type", "order.step3"}},
	{": failed, of a rare type", []string{"state", "failed", "event_type", rareType}},
	{": text in many", []string{"q", frequentText}},
	{": text in few", []string{"q", rareText}},
	{": text in none", []string{"q", "nothing like it"}},
	{": failed, text in none", []string{"state", "failed", "q", "nothing like it"}},
	{": beginning of uids", []string{"q", "ord-39"}},
}

var eventsBy = []by{
	{"", nil},
	{": of a type", []string{"type", "order.step3"}},
	{": of a rare type", []string{"type", rareType}},
	{": failed", []string{"status", "failed"}},
	{": cancelled", []string{"status", "cancelled"}},
	{": queued", []string{"status", "queued"}},
	{": running", []string{"status", "running"}},
	{": failed, of a rare type", []string{"status", "failed", "type", rareType}},
}
