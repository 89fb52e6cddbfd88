package console

import (
	"context"
	"net/http"
	"net/url"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
)

type alertsPage struct {
	Form  web.Form
	Views []view
	Rows  []alertRow
	Pager web.Pager
}

// alertRow is an alert with what its ids stand for.
type alertRow struct {
	alert.Alert
	Title      string
	TenantName string
	URL        string // of the endpoint, as it is now
}

// What the list shows if it is not told is what nobody looks after yet; allAlerts asks for the rest as well.
const (
	usualAlerts = string(alert.Open)
	allAlerts   = "all"
)

func (p *pages) alerts(v *web.Visit) error {
	form := web.Form{Values: v.R.URL.Query()}
	if form.Get("state") == "" {
		form.Values.Set("state", usualAlerts)
	}
	data := alertsPage{Form: form, Views: alertViews(form)}
	filter, before, err := p.readAlertFilter(v.Ctx(), form)
	if data.Form.Mark(err) {
		return showAlerts(v, data, http.StatusUnprocessableEntity)
	}
	if err != nil {
		return err
	}
	found, err := p.d.Alerts.List(v.Ctx(), filter, web.PageSize+1, before)
	if err != nil {
		return err
	}
	found, next := web.Cut(found, func(a alert.Alert) id.ID { return a.ID })
	if data.Rows, err = p.alertRows(v.Ctx(), found); err != nil {
		return err
	}
	data.Pager = web.PagerOf(v.R.URL, id.Alert, next)
	return showAlerts(v, data, 0)
}

func showAlerts(v *web.Visit, data alertsPage, status int) error {
	return v.Show(web.Page{Name: "alerts", Title: "Alerts", Section: "alerts", Status: status, Data: data})
}

// alertViews are the states, each of the tenant that is being looked at.
func alertViews(form web.Form) []view {
	var out []view
	for _, usual := range []struct{ label, state string }{
		{"Open", string(alert.Open)}, {"Acknowledged", string(alert.Acknowledged)}, {"Resolved", string(alert.Resolved)}, {"All", allAlerts},
	} {
		q := url.Values{"state": {usual.state}}
		if tenant := form.Get("tenant"); tenant != "" {
			q.Set("tenant", tenant)
		}
		out = append(out, view{usual.label, Base + "/alerts?" + q.Encode(), form.Get("state") == usual.state})
	}
	return out
}

// readAlertFilter reads which alerts an address asks for.
func (p *pages) readAlertFilter(ctx context.Context, form web.Form) (f alert.Filter, before id.ID, err error) {
	var faults fault.Fields
	if state := form.Get("state"); state != allAlerts {
		readWord(&faults, "/state", state, parseAlertState, &f.States)
	}
	if f.Tenant, err = p.readTenant(ctx, &faults, form); err != nil {
		return f, before, err
	}
	before = readCursor(&faults, form, id.Alert)
	return f, before, faults.Err()
}

func parseAlertState(word string) (alert.State, error) {
	for _, s := range alert.States() {
		if string(s) == word {
			return s, nil
		}
	}
	return "", fault.New(fault.Invalid, "no such state")
}

// alertRows looks up what a list's ids stand for.
func (p *pages) alertRows(ctx context.Context, found []alert.Alert) ([]alertRow, error) {
	var tenants, endpoints []id.ID
	for _, a := range found {
		if a.Kind.OfService() {
			continue
		}
		tenants, endpoints = append(tenants, a.Tenant), append(endpoints, a.Endpoint)
	}
	names, urls, err := p.called(ctx, tenants, endpoints)
	if err != nil {
		return nil, err
	}
	out := make([]alertRow, 0, len(found))
	for _, a := range found {
		out = append(out, alertRow{Alert: a, Title: alertWords[a.Kind].title, TenantName: names[a.Tenant], URL: urls[a.Endpoint]})
	}
	return out, nil
}
