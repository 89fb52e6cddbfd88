package console

import (
	"net/url"
	"strings"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
)

// objectPages are the pages that things have, by kind.
var objectPages = map[id.Kind]string{
	id.Tenant: "tenants", id.Endpoint: "endpoints", id.Event: "events", id.Delivery: "deliveries", id.Alert: "alerts",
	id.Key: "api-keys", id.Job: "jobs", id.Schedule: "schedules",
}

// objectPath is the page of a thing; "": it has none.
func objectPath(kind id.Kind, thing id.ID) string {
	section, has := objectPages[kind]
	if !has {
		return ""
	}
	return Base + "/" + section + "/" + kind.Format(thing)
}

// goTo leads from what somebody has at hand, an id as a rule, to the page of what it stands for. What is no id may be a
// tenant's uid; everything else is looked for among the deliveries, where ids of callers' own are found as well.
func (p *pages) goTo(v *web.Visit) error {
	text := strings.TrimSpace(v.R.URL.Query().Get("id"))
	if text == "" {
		return v.Go(Base + "/deliveries")
	}
	if kind, thing, err := id.ParseAny(text); err == nil {
		if path := objectPath(kind, thing); path != "" {
			return v.Go(path)
		}
		return fault.New(fault.NotFound, "there is no page for %s", text)
	}
	t, err := p.d.Subscriptions.Tenant(v.Ctx(), text)
	switch {
	case err == nil:
		return v.Go(objectPath(id.Tenant, t.ID))
	case !fault.Is(err, fault.NotFound):
		return err
	}
	return v.Go(Base + "/deliveries?q=" + url.QueryEscape(text))
}
