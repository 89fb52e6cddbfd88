package portal

import (
	"net/http"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

func (p *pages) settings(v *web.Visit) error {
	_, e, err := p.endpointOf(v)
	if err != nil {
		return err
	}
	types, err := p.catalogue(v.Ctx())
	if err != nil {
		return err
	}
	return p.showForm(v, &e, formOf(e, types), formShown{})
}

// saveSettings changes an endpoint if it is still the one that the form was made of: of two who change it at a time, the second
// is told.
func (p *pages) saveSettings(v *web.Visit) error {
	t, e, err := p.endpointOf(v)
	if err != nil {
		return err
	}
	form, err := v.Form()
	if err != nil {
		return err
	}
	s, err := readSettings(form)
	if err == nil {
		patch := s.patch()
		if e.Unreadable != "" && len(s.headers) == 0 {
			patch.Headers = subscriptions.Optional[[]signer.Header]{} // they could not be shown, so nobody has taken them out
		}
		var after subscriptions.Endpoint
		if after, err = p.d.Subscriptions.UpdateEndpoint(v.Ctx(), t, id.Endpoint.Format(e.ID), orNever(form.Get("version")), patch); err == nil {
			return p.saved(v, after)
		}
	}
	if fault.Is(err, fault.PreconditionFailed) {
		form.Faults = map[string]string{"": "Somebody has changed this endpoint since this form was opened, and nothing was saved. " +
			"See what it is now before you save again: what is written here would take its place."}
		form.Values.Set("version", e.ETag())
		return p.showForm(v, &e, form, formShown{status: http.StatusPreconditionFailed})
	}
	if !form.Mark(naming(err, typesOf(form))) {
		return err
	}
	return p.showForm(v, &e, form, formShown{status: fault.HTTPStatus(fault.CodeOf(err))})
}

// orNever takes a form without a version for one of a version that nothing has.
func orNever(version string) string {
	if version == "" {
		return `"none"`
	}
	return version
}

// saved shows the endpoint, and a secret that has come with another scheme.
func (p *pages) saved(v *web.Visit, e subscriptions.Endpoint) error {
	if e.Status == subscriptions.Enabled {
		p.d.Wake(e.ID.Shard)
	}
	if e.Minted.Reveal() != "" {
		return p.showSigning(v, e, signingShown{
			secrets: []subscriptions.SecretInfo{{Secret: e.Minted, CreatedAt: e.UpdatedAt}},
			title:   "Saved, with a new secret", says: "The new way to sign needs another secret. The old one signs no more.",
		})
	}
	return v.Done(headOf(v, e, "").Path, "It is saved.")
}
