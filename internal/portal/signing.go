package portal

import (
	"net/http"
	"time"

	"github.com/postrider/postrider/internal/duration"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

type signingPage struct {
	Head     endpointHead
	Title    string
	Says     string
	Secrets  []shownSecret // none: they were not asked for
	Public   bool          // what a receiver verifies with is no secret
	Rotate   web.Form
	Overlaps []web.Option // how long the old one may go on signing
	Snippets []snippet
}

// shownSecret is what a receiver verifies with.
type shownSecret struct {
	Text      string
	CreatedAt time.Time
	ExpiresAt *time.Time // nil: the current one
}

// signingShown is what is special about one showing of the page.
type signingShown struct {
	secrets     []subscriptions.SecretInfo
	title, says string
	status      int
	rotate      web.Form
}

func (p *pages) signing(v *web.Visit) error {
	_, e, err := p.endpointOf(v)
	if err != nil {
		return err
	}
	return p.showSigning(v, e, signingShown{})
}

// revealSecret is a POST: that somebody saw the secret is noted in the audit log.
func (p *pages) revealSecret(v *web.Visit) error {
	t, e, err := p.endpointOf(v)
	if err != nil {
		return err
	}
	secrets, err := p.d.Subscriptions.Secret(v.Ctx(), t, id.Endpoint.Format(e.ID))
	if err != nil {
		return v.Refused(headOf(v, e, "").Path+"/signing", err)
	}
	return p.showSigning(v, e, signingShown{secrets: secrets})
}

func (p *pages) rotateSecret(v *web.Visit) error {
	t, e, err := p.endpointOf(v)
	if err != nil {
		return err
	}
	form, err := v.Form()
	if err != nil {
		return err
	}
	var faults fault.Fields
	overlap, err := duration.Parse(form.Get("overlap"))
	faults.Add("/overlap", err)
	if err = faults.Err(); err == nil {
		if e, _, err = p.d.Subscriptions.RotateSecret(v.Ctx(), t, id.Endpoint.Format(e.ID), form.Get("secret"), overlap); err == nil {
			secrets, err := p.d.Subscriptions.Secret(v.Ctx(), t, id.Endpoint.Format(e.ID))
			if err != nil {
				return err
			}
			return p.showSigning(v, e, signingShown{secrets: secrets, title: "There is a new secret", says: rotated(overlap)})
		}
	}
	form.Values.Del("secret") // it is not sent back
	if !form.Mark(err) {
		return err
	}
	if _, e, err = p.endpointOf(v); err != nil {
		return err
	}
	return p.showSigning(v, e, signingShown{rotate: form, status: http.StatusUnprocessableEntity})
}

func rotated(overlap time.Duration) string {
	if overlap == 0 {
		return "The old one signs no more: give your receiver the new one now."
	}
	return "Give it to your receiver within " + web.Span(overlap) + ". Until then both sign, so that it takes either."
}

func (p *pages) showSigning(v *web.Visit, e subscriptions.Endpoint, how signingShown) error {
	data := signingPage{
		Head: headOf(v, e, "signing"), Title: how.title, Says: how.says, Public: e.PublicKey != "", Rotate: how.rotate, Snippets: snippetsOf(e),
		Overlaps: []web.Option{{Value: "0s", Label: "Not at all: the old one got out"}},
	}
	if e.Scheme.SupportsOverlap() {
		data.Overlaps = []web.Option{
			{Value: "24h", Label: "24 hours"},
			{Value: "1h", Label: "1 hour"},
			{Value: "3d", Label: "3 days"},
			{Value: "7d", Label: "7 days"},
			data.Overlaps[0],
		}
	}
	for _, s := range how.secrets {
		shown := shownSecret{Text: s.Secret.Reveal(), CreatedAt: s.CreatedAt, ExpiresAt: s.ExpiresAt}
		if public := s.Secret.PublicKey(); public != "" {
			shown.Text = public // the private key stays here: no receiver needs it
		}
		data.Secrets = append(data.Secrets, shown)
	}
	if data.Title == "" {
		data.Title = "Signing"
	}
	return v.Show(web.Page{Name: "signing", Title: data.Title, Section: "endpoints", Status: how.status, Data: data})
}
