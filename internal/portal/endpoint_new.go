package portal

import (
	"net/http"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// formPage is the form of a new endpoint, or of one that is there.
type formPage struct {
	Form     web.Form
	Endpoint *subscriptions.Endpoint // nil: a new one
	Action   string                  // where it is posted to
	Types    []eventType
	Schemes  []web.Option
	Formats  []web.Option
	Samples  []web.Option
	Result   *filterResult // nil: the filter was not tried
	Head     endpointHead
}

func (p *pages) newEndpoint(v *web.Visit) error {
	return p.showForm(v, nil, web.NewForm("rate_per", "1s"), formShown{})
}

func (p *pages) createEndpoint(v *web.Visit) error {
	t, err := p.tenant(v)
	if err != nil {
		return err
	}
	form, err := v.Form()
	if err != nil {
		return err
	}
	s, err := readSettings(form)
	if err == nil {
		var e subscriptions.Endpoint
		var secret signer.Secret
		if e, secret, err = p.d.Subscriptions.CreateEndpoint(v.Ctx(), t, s.endpoint()); err == nil {
			return p.showSigning(v, e, signingShown{
				secrets: []subscriptions.SecretInfo{{Secret: secret, CreatedAt: e.CreatedAt}}, title: "The endpoint is added", status: http.StatusCreated,
				says: "Put what it is verified with into your receiver, then send a test.",
			})
		}
	}
	if !form.Mark(naming(err, typesOf(form))) {
		return err
	}
	return p.showForm(v, nil, form, formShown{status: fault.HTTPStatus(fault.CodeOf(err))})
}

// formShown is what is special about one showing of the form.
type formShown struct {
	status int
	result *filterResult
}

// showForm shows the form of an endpoint, nil for a new one.
func (p *pages) showForm(v *web.Visit, e *subscriptions.Endpoint, form web.Form, how formShown) error {
	types, err := p.catalogue(v.Ctx())
	if err != nil {
		return err
	}
	for i := range types {
		for _, name := range form.Values["type"] {
			types[i].Chosen = types[i].Chosen || name == types[i].Name
		}
	}
	prefillSample(form, types)
	data := formPage{Form: form, Endpoint: e, Types: types, Schemes: schemes(), Formats: formats(), Samples: typeOptions(types, "no type"), Result: how.result}
	page := web.Page{Name: "endpoint-form", Title: "Add an endpoint", Section: "endpoints", Status: how.status}
	data.Action = Base + "/endpoints"
	if e != nil {
		data.Head = headOf(v, *e, "settings")
		data.Action, page.Title = data.Head.Path+"/settings", "Settings"
	}
	page.Data = data
	return v.Show(page)
}

func schemes() []web.Option {
	return []web.Option{
		{Value: string(signer.Standard), Label: "Standard Webhooks (recommended)"},
		{Value: string(signer.StandardEd25519), Label: "Standard Webhooks with a public key"},
		{Value: string(signer.Stripe), Label: "Like Stripe: t=…,v1=…"},
		{Value: string(signer.GitHub), Label: "Like GitHub: X-Hub-Signature-256"},
		{Value: string(signer.TimestampedHex), Label: "Timestamp and hex: x-delivery-signature"},
	}
}

func formats() []web.Option {
	return []web.Option{
		{Value: string(subscriptions.FormatRaw), Label: "The payload as it is"},
		{Value: string(subscriptions.FormatCloudEvents), Label: "CloudEvents 1.0, in JSON"},
	}
}

// urlPage says what is wrong with a URL, before anything is saved.
type urlPage struct{ Fault string }

func (p *pages) checkURL(v *web.Visit) error {
	form, err := v.Form()
	if err != nil {
		return err
	}
	var data urlPage
	if err := p.d.Subscriptions.CheckURL(form.Get("url")); err != nil {
		data.Fault = err.Error()
	}
	return v.Show(web.Page{Name: "url-check", Title: "Is this URL good?", Section: "endpoints", Data: data})
}
