package console

import (
	"net/http"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

type tenantsPage struct {
	Form    web.Form
	Rows    []subscriptions.Tenant
	Pager   pager
	CanMake bool
}

func (p *pages) tenants(v *web.Visit) error {
	form := web.Form{Values: v.R.URL.Query()}
	data := tenantsPage{Form: form, CanMake: v.May(admins)}
	page := web.Page{Name: "tenants", Title: "Tenants", Section: "tenants"}
	var faults fault.Fields
	var before id.ID
	if cursor := readID(&faults, form, "cursor", id.Tenant); cursor != nil {
		before = *cursor
	}
	if data.Form.Mark(faults.Err()) {
		page.Status, page.Data = http.StatusUnprocessableEntity, data
		return v.Show(page)
	}
	found, err := p.d.Subscriptions.Tenants(v.Ctx(), pageSize+1, before)
	if err != nil {
		return err
	}
	found, next := cut(found, func(t subscriptions.Tenant) id.ID { return t.ID })
	data.Rows, data.Pager = found, pagerOf(v.R.URL, id.Tenant, next)
	page.Data = data
	return v.Show(page)
}
