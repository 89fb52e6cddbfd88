package console

import (
	"context"
	"net/http"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

type tenantsPage struct {
	Form    web.Form // the search as it was written
	Rows    []subscriptions.Tenant
	Pager   web.Pager
	CanMake bool
}

func (p *pages) tenants(v *web.Visit) error {
	form := web.Form{Values: v.R.URL.Query()}
	if t, err := id.Tenant.Parse(form.Get("q")); err == nil {
		return v.Go(objectPath(id.Tenant, t))
	}
	data := tenantsPage{Form: form, CanMake: v.May(admins)}
	page := web.Page{Name: "tenants", Title: "Tenants", Section: "tenants"}
	found, err := p.findTenants(v.Ctx(), form)
	switch {
	case data.Form.Mark(err):
		page.Status = http.StatusUnprocessableEntity
	case err != nil:
		return err
	}
	data.Rows, data.Pager = found.Things, web.PagerOf(v.R.URL, id.Tenant, found.Next)
	page.Data = data
	return v.Show(page)
}

func (p *pages) findTenants(ctx context.Context, form web.Form) (subscriptions.Found[subscriptions.Tenant], error) {
	var faults fault.Fields
	before := readCursor(&faults, form, id.Tenant)
	if err := faults.Err(); err != nil {
		return subscriptions.Found[subscriptions.Tenant]{}, err
	}
	return p.d.Subscriptions.SearchTenants(ctx, form.Get("q"), web.PageSize, before)
}
