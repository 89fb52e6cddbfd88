package console

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

type endpointPage struct {
	Endpoint   endpointRow
	Spans      []view
	Traffic    web.Chart
	Latency    web.Chart
	Outcomes   []outcomeCount
	OldestDue  time.Duration // 0: nothing is due
	Schedule   string        // its own; "": the usual one
	Alerts     []alertRow
	Deliveries []deliveryRow
	Test       web.Form
	Rotate     web.Form
	Overlaps   []web.Option // how long two secrets may sign
}

// What a test event is unless somebody writes another.
const (
	testType    = "postrider.test"
	testPayload = `{"message":"This is a test event from Postrider."}`
)

// overlaps gives how long the old secret may go on signing: not at all where a request carries one signature only.
func overlaps(e subscriptions.Endpoint) []web.Option {
	if !e.Scheme.SupportsOverlap() {
		return []web.Option{{Value: "0s", Label: "not at all: this scheme carries one signature"}}
	}
	return []web.Option{{Value: "24h", Label: "24 hours"}, {Value: "1h", Label: "an hour"}, {Value: "7d", Label: "7 days"}, {Value: "0s", Label: "not at all"}}
}

func (p *pages) endpoint(v *web.Visit) error {
	e, err := p.endpointOf(v)
	if err != nil {
		return err
	}
	return p.showEndpoint(v, e, web.NewForm("type", testType, "payload", testPayload), 0)
}

// showEndpoint shows its page with what is written into the form of a test.
func (p *pages) showEndpoint(v *web.Visit, e subscriptions.Endpoint, test web.Form, status int) error {
	if e.DeletedAt != nil {
		return fault.New(fault.NotFound, "this endpoint was deleted")
	}
	back, spans, err := readSpan(v, endpointPath(e.ID), "24h")
	if err != nil {
		return err
	}
	data := endpointPage{Spans: spans, Overlaps: overlaps(e), Test: test, Rotate: web.NewForm()}
	names, err := p.d.Subscriptions.TenantNames(v.Ctx(), []id.ID{e.TenantID})
	if err != nil {
		return err
	}
	data.Endpoint = endpointRow{Endpoint: e, TenantName: names[e.TenantID]}
	if err := p.readHealth(v, &data, e.ID, back); err != nil {
		return err
	}
	if err := p.readRecent(v.Ctx(), &data, e); err != nil {
		return err
	}
	return v.Show(web.Page{
		Name: "endpoint", Title: "Endpoint " + id.Endpoint.Format(e.ID), Section: "endpoints", Status: status, Charts: true, Data: data,
	})
}

// readHealth reads how the endpoint has been over a time.
func (p *pages) readHealth(v *web.Visit, data *endpointPage, e id.ID, back time.Duration) error {
	series, err := p.d.Stats.Endpoint(v.Ctx(), e, v.Now.Add(-back), 0)
	if err != nil {
		return err
	}
	data.Endpoint.Figures = series
	data.Endpoint.Rate, data.Endpoint.HasRate = series.SuccessRate()
	data.Traffic, data.Latency, data.Outcomes = trafficChart(series), latencyChart(series), outcomesOf(series.Attempts)
	due, err := p.d.Deliveries.OldestDue(v.Ctx(), e)
	if err == nil && due != nil {
		data.OldestDue = max(v.Now.Sub(*due), time.Millisecond)
	}
	return err
}

// readRecent reads what has been going on: alerts that are not resolved, and the latest deliveries.
func (p *pages) readRecent(ctx context.Context, data *endpointPage, e subscriptions.Endpoint) error {
	var delays []string
	for _, d := range e.RetrySchedule {
		delays = append(delays, web.Span(d))
	}
	data.Schedule = strings.Join(delays, ", ")
	const latest = 20
	found, err := p.d.Deliveries.List(ctx, dispatcher.Filter{Endpoint: &e.ID}, latest, id.ID{})
	if err != nil {
		return err
	}
	if data.Deliveries, err = p.rows(ctx, found); err != nil {
		return err
	}
	own, err := p.d.Alerts.OfEndpoint(ctx, e.ID)
	if err != nil {
		return err
	}
	data.Alerts, err = p.alertRows(ctx, own)
	return err
}

// endpointOf finds the endpoint of the path.
func (p *pages) endpointOf(v *web.Visit) (subscriptions.Endpoint, error) {
	ep, err := v.PathID("ep", id.Endpoint, "endpoint")
	if err != nil {
		return subscriptions.Endpoint{}, err
	}
	return p.d.Subscriptions.EndpointByID(v.Ctx(), ep)
}

func endpointPath(e id.ID) string { return Base + "/endpoints/" + id.Endpoint.Format(e) }

// ownerOf gives the tenant of an endpoint, as the doors of subscriptions want it.
func (p *pages) ownerOf(ctx context.Context, e subscriptions.Endpoint) (subscriptions.Tenant, error) {
	return p.d.Subscriptions.Tenant(ctx, id.Tenant.Format(e.TenantID))
}

// onEndpoint does something to the endpoint of the path, and shows its page with what was done.
func (p *pages) onEndpoint(v *web.Visit, act func(t subscriptions.Tenant, ref string, form web.Form) (done string, err error)) error {
	form, err := v.Form()
	if err != nil {
		return err
	}
	e, err := p.endpointOf(v)
	if err != nil {
		return err
	}
	t, err := p.ownerOf(v.Ctx(), e)
	if err != nil {
		return err
	}
	done, err := act(t, id.Endpoint.Format(e.ID), form)
	if err != nil {
		return v.Refused(endpointPath(e.ID), err)
	}
	return v.Done(endpointPath(e.ID), "%s", done)
}

func (p *pages) pauseEndpoint(v *web.Visit) error {
	return p.onEndpoint(v, func(t subscriptions.Tenant, ref string, _ web.Form) (string, error) {
		status := subscriptions.Disabled
		_, err := p.d.Subscriptions.UpdateEndpoint(v.Ctx(), t, ref, "", subscriptions.EndpointPatch{Status: &status})
		return "The endpoint is switched off. Its deliveries are held until it is enabled.", err
	})
}

func (p *pages) enableEndpoint(v *web.Visit) error {
	return p.onEndpoint(v, func(t subscriptions.Tenant, ref string, _ web.Form) (string, error) {
		status := subscriptions.Enabled
		e, err := p.d.Subscriptions.UpdateEndpoint(v.Ctx(), t, ref, "", subscriptions.EndpointPatch{Status: &status})
		if err == nil {
			p.d.Wake(e.ID.Shard) // what was held is due
		}
		return "The endpoint is enabled. What was held goes out now.", err
	})
}

// rotateSecret replaces the signing secret. It is not shown: whoever may see it finds it in the portal or through the API.
func (p *pages) rotateSecret(v *web.Visit) error {
	return p.onEndpoint(v, func(t subscriptions.Tenant, ref string, form web.Form) (string, error) {
		overlap, err := readOverlap(form)
		if err != nil {
			return "", err
		}
		if _, _, err := p.d.Subscriptions.RotateSecret(v.Ctx(), t, ref, "", overlap); err != nil {
			return "", err
		}
		if overlap == 0 {
			return "The secret is a new one from now on. Its owner finds it in the portal.", nil
		}
		return fmt.Sprintf("There is a new secret; both sign for %s. The owner finds it in the portal.", web.Span(overlap)), nil
	})
}
