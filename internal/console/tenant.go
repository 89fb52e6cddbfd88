package console

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

// latest is how many deliveries the page of what they belong to shows.
const latest = 10

type tenantPage struct {
	Tenant     subscriptions.Tenant
	Metadata   string
	Endpoints  []subscriptions.Endpoint
	Pager      web.Pager // of the endpoints
	Deliveries []deliveryRow
	Searched   time.Time // how far back they were looked for, where that is not all the way
	Keys       []keyRow  // nil: they are not for the visitor
	CanChange  bool
	CanOpen    bool // its portal
}

func (p *pages) tenant(v *web.Visit) error {
	t, err := p.d.Subscriptions.Tenant(v.Ctx(), v.R.PathValue("ten"))
	if err != nil {
		return err
	}
	data := tenantPage{Tenant: t, CanChange: v.May(admins), CanOpen: v.May(support)}
	if err := p.readTenantPage(v.Ctx(), &data); err != nil {
		return err
	}
	if err := p.readEndpoints(v, &data); err != nil {
		return err
	}
	if data.CanChange {
		keys, err := p.d.Keys.OfTenant(v.Ctx(), t.ID, web.PageSize)
		if err != nil {
			return err
		}
		if data.Keys, err = p.keyRows(v.Ctx(), keys, v.Now); err != nil {
			return err
		}
	}
	return v.Show(web.Page{Name: "tenant", Title: t.Name, Section: "tenants", Data: data})
}

// readTenantPage gathers what a tenant has.
func (p *pages) readTenantPage(ctx context.Context, data *tenantPage) (err error) {
	t := data.Tenant
	if data.Metadata, err = prettyMetadata(t.Metadata); err != nil {
		return err
	}
	found, err := p.d.Deliveries.Search(ctx, dispatcher.Filter{Tenant: &t.ID}, latest, id.ID{})
	if err != nil {
		return err
	}
	data.Searched = gaveUpAt(found, latest)
	data.Deliveries, err = p.rows(ctx, found.Deliveries)
	return err
}

// readEndpoints reads a page of a tenant's endpoints: most have a handful.
func (p *pages) readEndpoints(v *web.Visit, data *tenantPage) error {
	var faults fault.Fields
	before := readCursor(&faults, web.Form{Values: v.R.URL.Query()}, id.Endpoint)
	if err := faults.Err(); err != nil {
		return err
	}
	found, err := p.d.Subscriptions.Endpoints(v.Ctx(), data.Tenant, web.PageSize+1, before)
	if err != nil {
		return err
	}
	found, next := web.Cut(found, func(e subscriptions.Endpoint) id.ID { return e.ID })
	data.Endpoints, data.Pager = found, web.PagerOf(v.R.URL, id.Endpoint, next)
	return nil
}

// prettyMetadata writes metadata over lines; "" if there is none.
func prettyMetadata(m map[string]any) (string, error) {
	if len(m) == 0 {
		return "", nil
	}
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // the page escapes it
	enc.SetIndent("", "  ")
	if err := enc.Encode(m); err != nil {
		return "", fmt.Errorf("show metadata: %w", err)
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}

// deleteTenant takes the tenant away first, so that nothing new is made, and then cancels what is not finished.
func (p *pages) deleteTenant(v *web.Visit) error {
	t, endpoints, err := p.d.Subscriptions.DeleteTenant(v.Ctx(), v.R.PathValue("ten"))
	if err != nil {
		return err
	}
	p.d.Keys.Forget()
	n, err := p.d.Deliveries.CancelUnfinishedOf(v.Ctx(), endpoints, dispatcher.ReasonTenantDeleted)
	if err != nil {
		return err
	}
	return v.Done(Base+"/tenants", "%s is deleted. Endpoints that went with it: %s; deliveries that were cancelled: %s.",
		t.Name, web.Count(len(endpoints)), web.Count(n))
}
