package console

import (
	"context"
	"net/http"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/stats"
	"github.com/postrider/postrider/internal/timeline"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

// healthSpan is the time that lists tell of endpoints' health over.
const healthSpan = 24 * time.Hour

type endpointsPage struct {
	Form    web.Form
	Views   []view
	Rows    []endpointRow
	Pager   web.Pager
	Looking bool // the search gave up before its end
}

// endpointRow is an endpoint with how it has been.
type endpointRow struct {
	subscriptions.Endpoint
	TenantName string
	Figures    stats.Series
	Rate       float64
	HasRate    bool
	Spark      web.Spark
}

func (p *pages) endpoints(v *web.Visit) error {
	form := web.Form{Values: v.R.URL.Query()}
	data := endpointsPage{Form: form, Views: healthViews(form)}
	show := func(status int) error {
		return v.Show(web.Page{Name: "endpoints", Title: "Endpoints", Section: "endpoints", Status: status, Data: data})
	}
	found, err := p.findEndpoints(v.Ctx(), form)
	if data.Form.Mark(err) {
		return show(http.StatusUnprocessableEntity)
	}
	if err != nil {
		return err
	}
	data.Pager = web.PagerOf(v.R.URL, id.Endpoint, found.Next)
	data.Looking = !found.Next.IsZero() && len(found.Things) < web.PageSize
	if data.Rows, err = p.endpointRows(v.Ctx(), found.Things, v.Now); err != nil {
		return err
	}
	return show(0)
}

// findEndpoints finds the endpoints that a list is about: those of a tenant, those that are not well, or all, with a text.
func (p *pages) findEndpoints(ctx context.Context, form web.Form) (found subscriptions.Found[subscriptions.Endpoint], err error) {
	var faults fault.Fields
	before := readCursor(&faults, form, id.Endpoint)
	if err := faults.Err(); err != nil {
		return found, err
	}
	if health := form.Get("health"); health != "" {
		return p.d.Subscriptions.EndpointsThatAre(ctx, health, web.PageSize, before)
	}
	return p.d.Subscriptions.SearchEndpoints(ctx, form.Get("q"), web.PageSize, before)
}

// healthViews are the ways that endpoints can be.
func healthViews(form web.Form) []view {
	out := []view{{"All", Base + "/endpoints", form.Get("health") == ""}}
	for _, h := range []string{"failing", "paused", "disabled", "dead"} {
		out = append(out, view{h, Base + "/endpoints?health=" + h, form.Get("health") == h})
	}
	return out
}

// endpointRows looks up how endpoints have been, all in one go.
func (p *pages) endpointRows(ctx context.Context, found []subscriptions.Endpoint, now time.Time) ([]endpointRow, error) {
	var tenants, ids []id.ID
	for _, e := range found {
		tenants, ids = append(tenants, e.TenantID), append(ids, e.ID)
	}
	names, err := p.d.Subscriptions.TenantNames(ctx, tenants)
	if err != nil {
		return nil, err
	}
	figures, err := p.d.Stats.EndpointsHealth(ctx, ids, now.Add(-healthSpan))
	if err != nil {
		return nil, err
	}
	out := make([]endpointRow, 0, len(found))
	for _, e := range found {
		r := endpointRow{Endpoint: e, TenantName: names[e.TenantID], Figures: figures[e.ID], Spark: timeline.Spark(figures[e.ID])}
		r.Rate, r.HasRate = r.Figures.SuccessRate()
		out = append(out, r)
	}
	return out, nil
}
