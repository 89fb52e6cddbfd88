package console

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
)

type deliveriesPage struct {
	Form     web.Form // the filter as it was written
	Views    []view
	Choices  choices
	Rows     []deliveryRow
	Pager    web.Pager
	Searched time.Time // how far back the search has looked, where it gave up before its end
	// Where the list goes besides: as a file, and to act on all that it is about.
	CSV, RetryAll, CancelAll string
}

// deliveryRow is a delivery with what its ids stand for.
type deliveryRow struct {
	dispatcher.Delivery
	TenantName string
	URL        string // of the endpoint, as it is now
}

// choices are what the fields of the filter offer.
type choices struct{ States, Outcomes, Spans []web.Option }

// view is a filter that people come back to.
type view struct {
	Label, Path string
	On          bool
}

// views are the usual ones; one is on if its state is what the filter asks for.
func views(form web.Form) []view {
	var out []view
	for _, usual := range []struct{ label, state string }{
		{"All", ""}, {"Failed", "failed"}, {"Waiting", "pending"}, {"Held", "held"}, {"Scheduled", "scheduled"}, {"Cancelled", "cancelled"},
	} {
		path := Base + "/deliveries"
		if usual.state != "" {
			path += "?state=" + usual.state
		}
		out = append(out, view{usual.label, path, form.Get("state") == usual.state})
	}
	return out
}

func (p *pages) deliveries(v *web.Visit) error {
	form := web.Form{Values: v.R.URL.Query()}
	data := deliveriesPage{Form: form, Views: views(form), Choices: filterChoices()}
	data.CSV, data.RetryAll, data.CancelAll = beside(v.R.URL)
	title := "Deliveries"
	f, before, err := p.readFilter(v.Ctx(), form, v.Now)
	if err != nil {
		return p.badFilter(v, title, data, err)
	}
	page, err := p.d.Deliveries.Search(v.Ctx(), f, web.PageSize, before)
	if err != nil {
		return p.badFilter(v, title, data, err)
	}
	if data.Rows, err = p.rows(v.Ctx(), page.Deliveries); err != nil {
		return err
	}
	data.Pager = web.PagerOf(v.R.URL, id.Delivery, page.Next)
	data.Searched = gaveUpAt(page, web.PageSize)
	return v.Show(web.Page{Name: "deliveries", Title: title, Section: "deliveries", Data: data})
}

// badFilter shows the filter again with what is wrong with it.
func (p *pages) badFilter(v *web.Visit, title string, data deliveriesPage, err error) error {
	if !data.Form.Mark(err) {
		return err
	}
	return v.Show(web.Page{Name: "deliveries", Title: title, Section: "deliveries", Status: fault.HTTPStatus(fault.CodeOf(err)), Data: data})
}

// readFilter reads a filter of deliveries as the address of a page has it. The names are those of the API.
func (p *pages) readFilter(ctx context.Context, form web.Form, now time.Time) (f dispatcher.Filter, before id.ID, err error) {
	var faults fault.Fields
	if f.Tenant, err = p.readTenant(ctx, &faults, form); err != nil {
		return f, before, err
	}
	f.Endpoint = readID(&faults, form, "endpoint", id.Endpoint)
	f.Event = readID(&faults, form, "event", id.Event)
	for _, word := range form.Values["state"] {
		readWord(&faults, "/state", word, dispatcher.ParseState, &f.States)
	}
	for _, word := range form.Values["outcome"] {
		readWord(&faults, "/outcome", word, dispatcher.ParseOutcome, &f.Outcomes)
	}
	f.EventType, f.Query = form.Get("event_type"), form.Get("q")
	f.Since, f.Until = form.Range(&faults, now)
	before = readCursor(&faults, form, id.Delivery)
	return f, before, faults.Err()
}

// rows looks up what a list's ids stand for.
func (p *pages) rows(ctx context.Context, found []dispatcher.Delivery) ([]deliveryRow, error) {
	var tenants, endpoints []id.ID
	for _, d := range found {
		tenants, endpoints = append(tenants, d.Tenant), append(endpoints, d.Endpoint)
	}
	names, urls, err := p.called(ctx, tenants, endpoints)
	if err != nil {
		return nil, err
	}
	out := make([]deliveryRow, 0, len(found))
	for _, d := range found {
		out = append(out, deliveryRow{Delivery: d, TenantName: names[d.Tenant], URL: urls[d.Endpoint]})
	}
	return out, nil
}

// called looks up what tenants are called and where endpoints are, each in one statement.
func (p *pages) called(ctx context.Context, tenants, endpoints []id.ID) (names, urls map[id.ID]string, err error) {
	if names, err = p.d.Subscriptions.TenantNames(ctx, tenants); err != nil {
		return nil, nil, err
	}
	if urls, err = p.d.Subscriptions.EndpointURLs(ctx, endpoints); err != nil {
		return nil, nil, err
	}
	return names, urls, nil
}

func filterChoices() choices {
	c := choices{
		States: []web.Option{{Value: "", Label: "any"}}, Outcomes: []web.Option{{Value: "", Label: "any"}},
		Spans: spans(),
	}
	for _, s := range dispatcher.States() {
		c.States = append(c.States, web.Option{Value: s.String(), Label: strings.ReplaceAll(s.String(), "_", " ")})
	}
	for _, o := range dispatcher.Outcomes() {
		c.Outcomes = append(c.Outcomes, web.Option{Value: o.String(), Label: strings.ReplaceAll(o.String(), "_", " ")})
	}
	return c
}

// spans are how far back a list may be asked to go.
func spans() []web.Option {
	return []web.Option{{Value: "", Label: "any time"}, {Value: "1h", Label: "last hour"}, {Value: "24h", Label: "last 24 hours"}, {Value: "7d", Label: "last 7 days"}}
}

// beside gives the paths of what the list at an address leads to, with the same filter.
func beside(u *url.URL) (csv, retryAll, cancelAll string) {
	q := u.Query()
	q.Del("cursor")
	csv = Base + "/deliveries.csv?" + q.Encode()
	q.Set("act", "retry")
	retryAll = Base + "/deliveries/bulk?" + q.Encode()
	q.Set("act", "cancel")
	return csv, retryAll, Base + "/deliveries/bulk?" + q.Encode()
}
