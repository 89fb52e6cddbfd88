package console

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

// tenantForm is the page on which a tenant is made or changed.
type tenantForm struct {
	Form   web.Form
	Tenant *subscriptions.Tenant // nil: a new one
	Action string
}

func (*pages) newTenant(v *web.Visit) error { return showTenantForm(v, web.NewForm(), nil, 0) }

func showTenantForm(v *web.Visit, form web.Form, t *subscriptions.Tenant, status int) error {
	title, action := "New tenant", Base+"/tenants"
	if t != nil {
		title, action = "Change "+t.Name, objectPath(id.Tenant, t.ID)
	}
	return v.Show(web.Page{
		Name: "tenant_form", Title: title, Section: "tenants", Status: status, Data: tenantForm{Form: form, Tenant: t, Action: action},
	})
}

func (p *pages) createTenant(v *web.Visit) error {
	form, err := v.Form()
	if err != nil {
		return err
	}
	n, err := readTenantForm(form)
	var t subscriptions.Tenant
	if err == nil {
		t, err = p.d.Subscriptions.CreateTenant(v.Ctx(), n)
	}
	if form.Mark(err) {
		return showTenantForm(v, form, nil, http.StatusUnprocessableEntity)
	}
	if err != nil {
		return err
	}
	return v.Done(objectPath(id.Tenant, t.ID), "The tenant is made.")
}

func (p *pages) editTenant(v *web.Visit) error {
	t, err := p.d.Subscriptions.Tenant(v.Ctx(), v.R.PathValue("ten"))
	if err != nil {
		return err
	}
	metadata, err := prettyMetadata(t.Metadata)
	if err != nil {
		return err
	}
	form := web.NewForm("name", t.Name, "uid", deref(t.UID), "contact_email", deref(t.ContactEmail), "metadata", metadata,
		versionField, versionOf(t.UpdatedAt))
	return showTenantForm(v, form, &t, 0)
}

func (p *pages) updateTenant(v *web.Visit) error {
	t, err := p.d.Subscriptions.Tenant(v.Ctx(), v.R.PathValue("ten"))
	if err != nil {
		return err
	}
	form, err := v.Form()
	if err != nil {
		return err
	}
	n, err := readTenantForm(form)
	if err == nil {
		err = wantVersion(form, t.UpdatedAt)
	}
	if err == nil {
		_, err = p.d.Subscriptions.UpdateTenant(v.Ctx(), id.Tenant.Format(t.ID), subscriptions.TenantPatch{
			UID:          subscriptions.Optional[string]{Given: true, Value: n.UID},
			Name:         subscriptions.Optional[string]{Given: true, Value: &n.Name},
			ContactEmail: subscriptions.Optional[string]{Given: true, Value: n.ContactEmail},
			Metadata:     subscriptions.Optional[map[string]any]{Given: true, Value: &n.Metadata},
		})
	}
	if form.Mark(err) {
		return showTenantForm(v, form, &t, fault.HTTPStatus(fault.CodeOf(err)))
	}
	if err != nil {
		return err
	}
	return v.Done(objectPath(id.Tenant, t.ID), "The changes are saved.")
}

// readTenantForm reads what a tenant shall be. Whether it may be that is subscriptions' to say.
func readTenantForm(form web.Form) (subscriptions.NewTenant, error) {
	n := subscriptions.NewTenant{Name: form.Get("name"), UID: given(form.Get("uid")), ContactEmail: given(form.Get("contact_email"))}
	if text := form.Get("metadata"); text != "" {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber() // digits stay as they were written
		err := dec.Decode(&n.Metadata)
		if _, after := dec.Token(); err == nil && !errors.Is(after, io.EOF) {
			err = errors.New("more follows")
		}
		if err != nil || n.Metadata == nil {
			return n, fault.InvalidAt("/metadata", `is no JSON object, such as {"plan": "gold"}`)
		}
	}
	return n, nil
}

// given is a value that may be left empty.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
