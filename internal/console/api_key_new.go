package console

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/duration"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/web"
)

// newKeyPage is the form for a key, and after it the key itself.
type newKeyPage struct {
	Form   web.Form
	Scopes []scopeChoice
	Key    auth.Key
	Text   string
}

type scopeChoice struct {
	Scope auth.Scope
	About string
	On    bool
}

// scopeWords say what a scope allows.
var scopeWords = map[auth.Scope]string{
	auth.EventsWrite:     "enqueue and cancel events: what a producer needs",
	auth.EndpointsWrite:  "make, change and delete endpoints, and see their secrets",
	auth.DeliveriesRead:  "see events, deliveries, attempts and alerts",
	auth.DeliveriesWrite: "retry and cancel deliveries, acknowledge and resolve alerts",
	auth.Admin:           "everything; of its tenant alone, if it is bound to one",
}

func (*pages) newKey(v *web.Visit) error {
	return showKeyForm(v, web.NewForm("tenant", v.R.URL.Query().Get("tenant")), 0)
}

func showKeyForm(v *web.Visit, form web.Form, status int) error {
	data := newKeyPage{Form: form}
	for _, s := range auth.Scopes() {
		data.Scopes = append(data.Scopes, scopeChoice{s, scopeWords[s], slices.Contains(form.Values["scopes"], string(s))})
	}
	return v.Show(web.Page{Name: "api_key_new", Title: "New API key", Section: "api-keys", Status: status, Data: data})
}

// createKey makes a key and shows it in this answer and no other: it is in no address and no cookie of ours.
func (p *pages) createKey(v *web.Visit) error {
	form, err := v.Form()
	if err != nil {
		return err
	}
	n, err := p.readKeyForm(v.Ctx(), form, v.Now)
	data := newKeyPage{Form: form}
	if err == nil {
		data.Key, data.Text, err = p.d.Keys.Create(v.Ctx(), n)
	}
	if form.Mark(err) {
		if ends := form.Faults["expires_at"]; ends != "" { // what the form asks for is how long from now
			form.Faults["expires_in"] = ends
		}
		return showKeyForm(v, form, http.StatusUnprocessableEntity)
	}
	if err != nil {
		return err
	}
	return v.Show(web.Page{Name: "api_key_made", Title: "The new API key", Section: "api-keys", Data: data})
}

// readKeyForm reads what a key shall be. Whether it may be that is auth's to say.
func (p *pages) readKeyForm(ctx context.Context, form web.Form, now time.Time) (auth.NewKey, error) {
	n := auth.NewKey{Name: form.Get("name")}
	for _, s := range form.Values["scopes"] {
		n.Scopes = append(n.Scopes, auth.Scope(s))
	}
	var faults fault.Fields
	var err error
	if n.Tenant, err = p.readTenant(ctx, &faults, form); err != nil {
		return n, err
	}
	if span := form.Get("expires_in"); span != "" {
		d, err := duration.Parse(span)
		if err != nil || d <= 0 {
			faults.Addf("/expires_in", "is no span like 12h or 90d")
		}
		end := now.Add(d)
		n.ExpiresAt = &end
	}
	return n, faults.Err()
}
