package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/subscriptions"
)

// known is what pages are about: things that have much.
type known struct {
	tenant                    subscriptions.Tenant
	endpoint, delivery, event id.ID
	tried, wide               id.ID    // a delivery with many attempts, an event with many deliveries
	job, alert                id.ID    //
	some                      []string // ids of deliveries that failed
}

// sitePages are the pages that people open in the console and in a tenant's portal.
func (w *world) sitePages(ctx context.Context) ([]page, error) {
	s := w.newSite()
	k, err := w.know(ctx, s)
	if err != nil {
		return nil, err
	}
	admin, err := s.admin(ctx, w.apiKey)
	if err != nil {
		return nil, err
	}
	tenant, err := s.tenant(ctx, k.tenant)
	if err != nil {
		return nil, err
	}
	var out []page
	for _, p := range consolePages(k) {
		out = append(out, page{"console: " + p[0], "/console" + p[1], admin})
	}
	for _, p := range portalPages(k) {
		out = append(out, page{"portal: " + p[0], "/portal" + p[1], tenant})
	}
	return out, nil
}

// consolePages are names and paths.
func consolePages(k known) [][2]string {
	tenant, endpoint := id.Tenant.Format(k.tenant.ID), id.Endpoint.Format(k.endpoint)
	out := [][2]string{
		{"overview, an hour", "/"},
		{"overview, 24 hours", "/?span=24h"},
		{"overview, 7 days", "/?span=7d"},
		{"a delivery", "/deliveries/" + id.Delivery.Format(k.delivery)},
		{"a delivery of 40 attempts", "/deliveries/" + id.Delivery.Format(k.tried)},
		{"events, nobody's", "/events"},
		{"events of a tenant", "/events?tenant=" + tenant},
		{"events of a tenant: failed", "/events?status=failed&tenant=" + tenant},
		{"an event", "/events/" + id.Event.Format(k.event)},
		{"an event of 250 deliveries", "/events/" + id.Event.Format(k.wide)},
		{"endpoints", "/endpoints"},
		{"endpoints: text in many", "/endpoints?q=hooks"},
		{"endpoints: text in none", "/endpoints?q=nothing-like-it"},
		{"endpoints: failing", "/endpoints?health=failing"},
		{"endpoints: paused", "/endpoints?health=paused"},
		{"endpoints: disabled", "/endpoints?health=disabled"},
		{"endpoints: dead", "/endpoints?health=dead"},
		{"an endpoint, an hour", "/endpoints/" + endpoint + "?span=1h"},
		{"an endpoint, 24 hours", "/endpoints/" + endpoint},
		{"an endpoint, 7 days", "/endpoints/" + endpoint + "?span=7d"},
		{"alerts", "/alerts"},
		{"alerts: resolved", "/alerts?state=resolved"},
		{"alerts: all", "/alerts?state=all"},
		{"an alert", "/alerts/" + id.Alert.Format(k.alert)},
		{"tenants", "/tenants"},
		{"tenants: text in many", "/tenants?q=customer"},
		{"tenants: text in none", "/tenants?q=nothing-like-it"},
		{"a tenant", "/tenants/" + tenant},
		{"API keys", "/api-keys"},
		{"audit log", "/audit-log"},
		{"audit log: a rare action", "/audit-log?action=endpoint.deleted"},
		{"event types", "/event-types"},
		{"an event type", "/event-types/order.step3"},
		{"jobs", "/jobs"},
		{"a job", "/jobs/" + id.Job.Format(k.job)},
		{"retry of 50 chosen", "/deliveries/bulk?" + url.Values{"act": {"retry"}, "id": k.some}.Encode()},
	}
	for _, by := range deliveriesBy {
		q := url.Values{}
		for i := 0; i+1 < len(by.query); i += 2 {
			for value := range strings.SplitSeq(by.query[i+1], ",") {
				q.Add(by.query[i], value)
			}
		}
		out = append(out, [2]string{"deliveries" + by.name, "/deliveries?" + q.Encode()})
	}
	return append(out,
		[2]string{"deliveries of a tenant", "/deliveries?tenant=" + tenant},
		[2]string{"deliveries of an endpoint: failed", "/deliveries?state=failed&endpoint=" + endpoint},
		[2]string{"deliveries: failed, the last 7 days", "/deliveries?state=failed&span=7d"},
	)
}

func portalPages(k known) [][2]string {
	endpoint := id.Endpoint.Format(k.endpoint)
	return [][2]string{
		{"endpoints", "/"},
		{"an endpoint", "/endpoints/" + endpoint},
		{"an endpoint's signing", "/endpoints/" + endpoint + "/signing"},
		{"deliveries", "/deliveries"},
		{"deliveries: failed", "/deliveries?state=failed"},
		{"deliveries of an endpoint", "/deliveries?endpoint=" + endpoint},
		{"a delivery", "/deliveries/" + id.Delivery.Format(k.delivery)},
		{"event types", "/event-types"},
	}
}

// know looks up what pages are about.
func (w *world) know(ctx context.Context, s site) (k known, err error) {
	if k.tenant, err = w.store.Tenant(ctx, "customer-0"); err != nil {
		return k, err
	}
	e, err := w.store.Endpoint(ctx, k.tenant, fmt.Sprintf("hook-%s-3", *k.tenant.UID))
	if err != nil {
		return k, err
	}
	k.endpoint = e.ID
	desk := dispatcher.NewDesk(dispatcher.DeskDeps{DB: w.db, IDs: w.ids, Now: w.clock.Now, Wake: func(int16) {}})
	failed, err := desk.List(ctx, dispatcher.Filter{States: []dispatcher.State{dispatcher.StateFailed}}, 50, id.ID{})
	if err != nil {
		return k, err
	}
	var some []id.ID
	for _, d := range failed {
		some, k.some = append(some, d.ID), append(k.some, id.Delivery.Format(d.ID))
	}
	own, err := desk.List(ctx, dispatcher.Filter{Endpoint: &k.endpoint}, 1, id.ID{})
	if err != nil || len(own) == 0 {
		return k, fmt.Errorf("a delivery of the endpoint: %d (%w)", len(own), err)
	}
	k.delivery, k.event = own[0].ID, own[0].Event
	job, err := s.jobs.Create(ctx, jobs.Request{Kind: jobs.Retry, IDs: some})
	if err != nil {
		return k, err
	}
	k.job = job.ID
	for sql, into := range map[string]*id.ID{
		`SELECT shard, id FROM alerts WHERE state = 'open' LIMIT 1`:  &k.alert,
		`SELECT shard, delivery_id FROM attempts WHERE attempt = 40`: &k.tried,
		`SELECT shard, id FROM events WHERE uid = 'wide'`:            &k.wide,
	} {
		if err := w.db.QueryRow(ctx, sql).Scan(&into.Shard, &into.N); err != nil {
			return k, fmt.Errorf("%s: %w", sql, err)
		}
	}
	return k, nil
}
