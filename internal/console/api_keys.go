package console

import (
	"context"
	"net/http"
	"time"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
)

type keysPage struct {
	Form  web.Form
	Rows  []keyRow
	Pager web.Pager
}

// keyRow is an API key with what its ids stand for.
type keyRow struct {
	auth.Key
	TenantName string
	Expired    bool
}

func (p *pages) apiKeys(v *web.Visit) error {
	data := keysPage{Form: web.Form{Values: v.R.URL.Query()}}
	page := web.Page{Name: "api_keys", Title: "API keys", Section: "api-keys"}
	var faults fault.Fields
	before := readCursor(&faults, data.Form, id.Key)
	if data.Form.Mark(faults.Err()) {
		page.Status, page.Data = http.StatusUnprocessableEntity, data
		return v.Show(page)
	}
	found, err := p.d.Keys.List(v.Ctx(), web.PageSize+1, before)
	if err != nil {
		return err
	}
	found, next := web.Cut(found, func(k auth.Key) id.ID { return k.ID })
	if data.Rows, err = p.keyRows(v.Ctx(), found, v.Now); err != nil {
		return err
	}
	data.Pager = web.PagerOf(v.R.URL, id.Key, next)
	page.Data = data
	return v.Show(page)
}

// keyRows looks up whose the keys of a list are.
func (p *pages) keyRows(ctx context.Context, found []auth.Key, now time.Time) ([]keyRow, error) {
	var tenants []id.ID
	for _, k := range found {
		if k.Tenant != nil {
			tenants = append(tenants, *k.Tenant)
		}
	}
	names, err := p.d.Subscriptions.TenantNames(ctx, tenants)
	if err != nil {
		return nil, err
	}
	out := make([]keyRow, 0, len(found))
	for _, k := range found {
		row := keyRow{Key: k, Expired: k.ExpiresAt != nil && !k.ExpiresAt.After(now)}
		if k.Tenant != nil {
			row.TenantName = names[*k.Tenant]
		}
		out = append(out, row)
	}
	return out, nil
}

type keyPage struct {
	Key      keyRow
	Question string // before it is revoked
}

func (p *pages) apiKey(v *web.Visit) error {
	key, err := readKeyPath(v)
	if err != nil {
		return err
	}
	k, err := p.d.Keys.Get(v.Ctx(), key)
	if err != nil {
		return err
	}
	rows, err := p.keyRows(v.Ctx(), []auth.Key{k}, v.Now)
	if err != nil {
		return err
	}
	data := keyPage{Key: rows[0], Question: "Revoke this key? Whoever uses it is refused from now on. This cannot be taken back."}
	if k.ID == v.Session.Principal.Key {
		data.Question += " You are signed in with it: you will be signed out."
	}
	return v.Show(web.Page{Name: "api_key", Title: "API key " + k.Name, Section: "api-keys", Data: data})
}

func (p *pages) revokeKey(v *web.Visit) error {
	key, err := readKeyPath(v)
	if err != nil {
		return err
	}
	if err := p.d.Keys.Revoke(v.Ctx(), key); err != nil {
		return err
	}
	return v.Done(Base+"/api-keys", "The key is revoked.")
}

func readKeyPath(v *web.Visit) (id.ID, error) {
	key, err := v.PathID("key", id.Key, "API key")
	if err != nil {
		return id.ID{}, err
	}
	return key, nil
}
