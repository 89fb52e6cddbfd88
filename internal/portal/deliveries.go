package portal

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

type deliveriesPage struct {
	Form      web.Form // the filter as it was written
	States    []web.Option
	Spans     []web.Option
	Endpoints []web.Option
	Rows      []deliveryRow
	Pager     web.Pager
	Searched  time.Time // how far back the search has looked, where it gave up before its end
}

// deliveryRow is a delivery with where it goes.
type deliveryRow struct {
	dispatcher.Delivery
	URL string // of the endpoint, as it is now
}

func (p *pages) deliveries(v *web.Visit) error {
	t, err := p.tenant(v)
	if err != nil {
		return err
	}
	form := web.Form{Values: v.R.URL.Query()}
	data := deliveriesPage{Form: form, States: states(), Spans: spans()}
	if data.Endpoints, err = p.endpointOptions(v.Ctx(), t, form.Get("endpoint")); err != nil {
		return err
	}
	f, err := p.readFilter(v, t, form)
	if err != nil {
		return badFilter(v, data, err)
	}
	before, err := readCursor(v.R.URL, id.Delivery)
	if err != nil {
		return badFilter(v, data, err)
	}
	page, err := p.d.Deliveries.Search(v.Ctx(), f, pageSize, before)
	if err != nil {
		return badFilter(v, data, err)
	}
	if data.Rows, err = p.rows(v.Ctx(), page.Deliveries); err != nil {
		return err
	}
	data.Pager = web.PagerOf(v.R.URL, id.Delivery, page.Next)
	if !page.Next.IsZero() && len(page.Deliveries) < pageSize {
		data.Searched = page.SearchedTo
	}
	return v.Show(web.Page{Name: "deliveries", Title: "Deliveries", Section: "deliveries", Data: data})
}

// badFilter shows the filter again with what is wrong with it.
func badFilter(v *web.Visit, data deliveriesPage, err error) error {
	if !data.Form.Mark(err) {
		return err
	}
	return v.Show(web.Page{Name: "deliveries", Title: "Deliveries", Section: "deliveries", Status: fault.HTTPStatus(fault.CodeOf(err)), Data: data})
}

// readFilter reads a filter, which never goes beyond the tenant.
func (p *pages) readFilter(v *web.Visit, t subscriptions.Tenant, form web.Form) (dispatcher.Filter, error) {
	var faults fault.Fields
	f := dispatcher.Filter{Tenant: &t.ID, EventType: form.Get("event_type"), Query: form.Get("q")}
	if ref := form.Get("endpoint"); ref != "" {
		e, err := p.d.Subscriptions.Endpoint(v.Ctx(), t, ref)
		switch {
		case fault.Is(err, fault.NotFound):
			faults.Addf("/endpoint", "there is no such endpoint")
		case err != nil:
			return f, err
		}
		f.Endpoint = &e.ID
	}
	if word := form.Get("state"); word != "" {
		state, err := dispatcher.ParseState(word)
		if err != nil {
			faults.Addf("/state", "there is no %q", word)
		}
		f.States = []dispatcher.State{state}
	}
	f.Since, f.Until = form.Range(&faults, v.Now)
	return f, faults.Err()
}

// rows looks up where deliveries go. All are the tenant's, and so are their endpoints.
func (p *pages) rows(ctx context.Context, found []dispatcher.Delivery) ([]deliveryRow, error) {
	var endpoints []id.ID
	for _, d := range found {
		endpoints = append(endpoints, d.Endpoint)
	}
	urls, err := p.d.Subscriptions.EndpointURLs(ctx, endpoints)
	if err != nil {
		return nil, err
	}
	out := make([]deliveryRow, 0, len(found))
	for _, d := range found {
		out = append(out, deliveryRow{d, urls[d.Endpoint]})
	}
	return out, nil
}

// endpointOptions offers the tenant's newest endpoints, and the one that is chosen already.
func (p *pages) endpointOptions(ctx context.Context, t subscriptions.Tenant, chosen string) ([]web.Option, error) {
	const offered = 100
	found, err := p.d.Subscriptions.Endpoints(ctx, t, offered, id.ID{})
	if err != nil {
		return nil, err
	}
	out := []web.Option{{Value: "", Label: "any"}}
	listed := chosen == ""
	for _, e := range found {
		ref := id.Endpoint.Format(e.ID)
		listed = listed || ref == chosen
		out = append(out, web.Option{Value: ref, Label: web.Clip(60, cmp.Or(e.Description, dispatcher.Place(e.URL)))})
	}
	if !listed {
		out = append(out, web.Option{Value: chosen, Label: chosen})
	}
	return out, nil
}

func states() []web.Option {
	out := []web.Option{{Value: "", Label: "any"}}
	for _, s := range dispatcher.States() {
		out = append(out, web.Option{Value: s.String(), Label: strings.ReplaceAll(s.String(), "_", " ")})
	}
	return out
}

func spans() []web.Option {
	return []web.Option{
		{Value: "", Label: "any time"}, {Value: "1h", Label: "last hour"}, {Value: "24h", Label: "last 24 hours"}, {Value: "7d", Label: "last 7 days"},
	}
}
