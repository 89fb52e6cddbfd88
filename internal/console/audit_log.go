package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
)

type auditPage struct {
	Form           web.Form
	Actions, Spans []web.Option
	Rows           []auditRow
	Pager          web.Pager
}

// auditRow is an entry of the audit log with what its ids stand for and lead to.
type auditRow struct {
	audit.Record
	Who        string // the kind of actor, in words
	ByPath     string // to all that the acting key did, which is there also when the key is not
	Object     string
	ObjectPath string
	TenantName string
	Said       []said
}

// actorWords say what kind of somebody acted.
var actorWords = map[audit.ActorKind]string{
	audit.ByKey: "API key", audit.ByUser: "user", audit.ByPortal: "portal", audit.ByCLI: "command line", audit.BySystem: "Postrider",
}

func (p *pages) auditLog(v *web.Visit) error {
	data := auditPage{Form: web.Form{Values: v.R.URL.Query()}, Spans: spans(), Actions: []web.Option{{Value: "", Label: "any"}}}
	for _, a := range audit.Actions() {
		data.Actions = append(data.Actions, web.Option{Value: string(a), Label: string(a)})
	}
	page := web.Page{Name: "audit_log", Title: "Audit log", Section: "audit-log"}
	f, before, err := p.readAuditFilter(v, data.Form)
	if data.Form.Mark(err) {
		page.Status, page.Data = http.StatusUnprocessableEntity, data
		return v.Show(page)
	}
	if err != nil {
		return err
	}
	found, err := p.d.Audit.List(v.Ctx(), f, web.PageSize+1, before)
	if err != nil {
		return err
	}
	found, next := web.Cut(found, func(r audit.Record) id.ID { return r.ID })
	if data.Rows, err = p.auditRows(v.Ctx(), found); err != nil {
		return err
	}
	data.Pager = web.PagerOf(v.R.URL, id.Audit, next)
	page.Data = data
	return v.Show(page)
}

// readAuditFilter reads which entries an address asks for. The names are those of the API.
func (p *pages) readAuditFilter(v *web.Visit, form web.Form) (f audit.Filter, before id.ID, err error) {
	var faults fault.Fields
	var actions []audit.Action
	readWord(&faults, "/action", form.Get("action"), parseAction, &actions)
	if len(actions) > 0 {
		f.Action = actions[0]
	}
	f.Actor = form.Get("actor")
	if key, err := id.Key.Parse(f.Actor); err == nil {
		f.Actor, f.Key = "", &key
	}
	if text := form.Get("object"); text != "" {
		kind, thing, err := id.ParseAny(text)
		faults.Add("/object", err)
		f.Object = &audit.Thing{Kind: kind, ID: thing}
	}
	if f.Tenant, err = p.readTenant(v.Ctx(), &faults, form); err != nil {
		return f, before, err
	}
	f.Since, f.Until = form.Range(&faults, v.Now)
	before = readCursor(&faults, form, id.Audit)
	return f, before, faults.Err()
}

func parseAction(word string) (audit.Action, error) {
	for _, a := range audit.Actions() {
		if string(a) == word {
			return a, nil
		}
	}
	return "", fault.New(fault.Invalid, "no such action")
}

// auditedPath is the page of what was acted on. That of an event type has its name, which its entries say.
func auditedPath(r audit.Record) string {
	if r.Object.Kind != id.EventType {
		return objectPath(r.Object.Kind, r.Object.ID)
	}
	var about struct{ Name string }
	if json.Unmarshal(r.Details, &about) != nil || about.Name == "" {
		return ""
	}
	return Base + "/event-types/" + url.PathEscape(about.Name)
}

// auditRows looks up what a list's ids stand for.
func (p *pages) auditRows(ctx context.Context, found []audit.Record) ([]auditRow, error) {
	var tenants []id.ID
	for _, r := range found {
		if r.Tenant != nil {
			tenants = append(tenants, *r.Tenant)
		}
	}
	names, err := p.d.Subscriptions.TenantNames(ctx, tenants)
	if err != nil {
		return nil, err
	}
	out := make([]auditRow, 0, len(found))
	for _, r := range found {
		row := auditRow{
			Record: r, Who: actorWords[r.Actor.Kind], Object: r.Object.Kind.Format(r.Object.ID),
			ObjectPath: auditedPath(r), Said: tell(r.Details),
		}
		if r.Tenant != nil {
			row.TenantName = names[*r.Tenant]
		}
		if r.Actor.Kind == audit.ByKey {
			row.ByPath = Base + "/audit-log?actor=" + id.Key.Format(r.Actor.Key)
		}
		out = append(out, row)
	}
	return out, nil
}
