package console

import (
	"context"
	"net/url"
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

// alertWords say what a kind of alert is, and what to do about it.
var alertWords = map[alert.Kind]struct{ title, about, remedy string }{
	alert.DeliveryFailing: {
		"Deliveries keep failing", "A delivery to this endpoint has failed several times in a row. It is still being retried.",
		"Look at the answers below and tell the endpoint's owner what they say. If the receiver is mended before the schedule ends, there is nothing else to do: the next success resolves this alert.",
	},
	alert.DeliveryFailed: {
		"Deliveries failed for good", "A delivery to this endpoint has failed, and Postrider does not try it again by itself.",
		"Tell the endpoint's owner what its answers below say. When the receiver is mended, retry the failed deliveries: the first success resolves this alert.",
	},
	alert.EndpointUnauthorized: {
		"Credentials refused", "The receiver answered 401 or 403. Such a delivery fails at once and is not retried.",
		"Have the endpoint's owner check that the receiver knows the endpoint's signing secret, and that the endpoint's own headers still hold good credentials. Then retry the failed deliveries.",
	},
	alert.EndpointBlocked: {
		"Address not allowed", "The endpoint's host leads to an address that deliveries may not go to, such as one of a private network.",
		"Have the endpoint's owner change its URL to a public address. If the address is meant, allow its network in delivery.allow_networks. Then retry the failed deliveries.",
	},
	alert.EndpointDisabled: {
		"Endpoint switched off", "The endpoint was disabled: every attempt had failed for too long, or its receiver asked for it. Deliveries to it are held.",
		"Ask the endpoint's owner whether the receiver is well again, then enable the endpoint. What is held goes out at once.",
	},
	alert.EndpointDead: {
		"Endpoint is dead", "The receiver answered 410 Gone: it wants nothing more. What was not delivered yet is cancelled.",
		"If the owner meant it, delete the endpoint. If not, have the receiver mended, enable the endpoint, then retry what was cancelled.",
	},
	alert.ServiceDeliveriesLate: {
		"Deliveries are late", "Something could be sent, to an endpoint that takes deliveries, and has not been for longer than watch.max_due_age.",
		"See whether dispatchers are at work, in the overview or by postrider processes. If they are, they cannot keep up: look at their logs and at PostgreSQL's load, and add a dispatcher. It resolves by itself.",
	},
	alert.ServiceCanaryFailed: {
		"The canary does not come through", "Postrider sends itself an event again and again. For three times canary.every none has come the whole way: accepted, sent, received with a good signature, and recorded.",
		"The detail says where the last one is stuck. If it is not accepted or not sent, look at the processes and the database; if it is refused or its address is wrong, at canary.url and what stands in front of the API. It resolves by itself.",
	},
	alert.ServiceNoScheduler: {
		"No scheduler is at work", "Nobody keeps house: no recurring events, no jobs, no partitions for the days to come, and nothing old is deleted.",
		"Start a process with the role scheduler. One that is stuck says why in its log: restart it. It resolves by itself.",
	},
	alert.ServiceNoDispatcher: {
		"Too few dispatchers are at work", "Fewer processes with the role dispatcher are at work than watch.min_dispatchers. With none, events are accepted and nothing is sent.",
		"Start a process with the role dispatcher. One that is stuck says why in its log: restart it. What is due goes out by itself, and then this alert resolves.",
	},
}

type alertPage struct {
	Alert         alertRow
	About, Remedy string
	Endpoint      subscriptions.Endpoint
	Since         time.Time
	Deliveries    []deliveryRow
	Searched      time.Time // how far back they were looked for, where that is not as far as Since
	All           string    // the path of the list of deliveries with the same filter
	CanAct        bool
}

func (p *pages) alert(v *web.Visit) error {
	alr, err := v.PathID("alr", id.Alert, "alert")
	if err != nil {
		return err
	}
	data, err := p.readAlert(v.Ctx(), alr)
	if err != nil {
		return err
	}
	data.CanAct = v.May(support)
	return v.Show(web.Page{Name: "alert", Title: data.Alert.Title, Section: "alerts", Data: data})
}

// readAlert gathers all that the page shows.
func (p *pages) readAlert(ctx context.Context, alr id.ID) (alertPage, error) {
	a, err := p.d.Alerts.Get(ctx, alr)
	if err != nil {
		return alertPage{}, err
	}
	words := alertWords[a.Kind]
	data := alertPage{About: words.about, Remedy: words.remedy}
	if a.Kind.OfService() {
		data.Alert = alertRow{Alert: a, Title: words.title}
		return data, nil
	}
	if data.Endpoint, err = p.d.Subscriptions.EndpointByID(ctx, a.Endpoint); err != nil {
		return data, err
	}
	rows, err := p.alertRows(ctx, []alert.Alert{a})
	if err != nil {
		return data, err
	}
	data.Alert = rows[0]
	f := p.behind(a, data.Endpoint)
	data.Since, data.All = f.Since, deliveriesPath(f)
	found, err := p.d.Deliveries.Search(ctx, f, web.PageSize, id.ID{})
	if err != nil {
		return data, err
	}
	data.Searched = gaveUpAt(found, web.PageSize)
	data.Deliveries, err = p.rows(ctx, found.Deliveries)
	return data, err
}

// behind is the filter for the deliveries that an alert is about: what did not get through to its endpoint since the time
// when the first of them can have been made. An alert does not keep which that was, but none waits longer for its end than
// its schedule is long. To the minute, as the fields of the list's filter are.
func (p *pages) behind(a alert.Alert, e subscriptions.Endpoint) dispatcher.Filter {
	delays := e.RetrySchedule
	if delays == nil {
		delays = p.d.Schedule
	}
	since := a.OpenedAt
	for _, delay := range delays {
		since = since.Add(-delay)
	}
	if a.LastDelivery != nil && a.LastDelivery.Time().Before(since) {
		since = a.LastDelivery.Time() // it was retried by hand, or scheduled
	}
	f := dispatcher.Filter{
		Endpoint: &a.Endpoint, Since: since.UTC().Truncate(time.Minute),
		States: []dispatcher.State{dispatcher.StateFailed, dispatcher.Pending, dispatcher.Held},
	}
	if a.Kind == alert.EndpointDead {
		f.States = append(f.States, dispatcher.StateCancelled)
	}
	if a.ResolvedAt != nil {
		f.Until = a.ResolvedAt.UTC().Truncate(time.Minute).Add(time.Minute)
	}
	return f
}

// deliveriesPath is the address of the list of deliveries with a filter of an endpoint, states and times.
func deliveriesPath(f dispatcher.Filter) string {
	q := url.Values{"endpoint": {id.Endpoint.Format(*f.Endpoint)}, "since": {f.Since.Format(web.MinuteForm)}}
	for _, s := range f.States {
		q.Add("state", s.String())
	}
	if !f.Until.IsZero() {
		q.Set("until", f.Until.Format(web.MinuteForm))
	}
	return Base + "/deliveries?" + q.Encode()
}

func (p *pages) acknowledgeAlert(v *web.Visit) error {
	return p.actOnAlert(v, p.d.Alerts.Acknowledge, "You look after it now.")
}

func (p *pages) resolveAlert(v *web.Visit) error {
	return p.actOnAlert(v, p.d.Alerts.Resolve, "It is resolved.")
}

// actOnAlert does something to the alert of the path, in the visitor's name, and shows it again.
func (p *pages) actOnAlert(v *web.Visit, act func(ctx context.Context, alr id.ID, by string) (alert.Alert, error), done string) error {
	alr, err := v.PathID("alr", id.Alert, "alert")
	if err != nil {
		return err
	}
	page := objectPath(id.Alert, alr)
	if _, err := act(v.Ctx(), alr, v.Session.Principal.Name); err != nil {
		if fault.Is(err, fault.NotFound) {
			return err
		}
		return v.Refused(page, err)
	}
	return v.Done(page, "%s", done)
}
