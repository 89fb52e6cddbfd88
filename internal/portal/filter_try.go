package portal

import (
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

// filterResult is what a filter says of the sample.
type filterResult struct {
	Matches bool
	Error   string // why it could not tell of this sample
}

// prefillSample puts the example of a type where no sample was written, or where it was asked for: of the type that the sample
// shall be, else of the first one that was chosen.
func prefillSample(form web.Form, types []eventType) {
	if form.Get("sample_type") == "" {
		for _, name := range form.Values["type"] {
			form.Values.Set("sample_type", name)
			break
		}
	}
	if form.Get("sample") != "" && !form.Values.Has("example") {
		return
	}
	if example := exampleOf(types, form.Get("sample_type")); example != "" {
		form.Values.Set("sample", example)
	}
}

// tryFilter shows the form again, with what its filter says of its sample. Nothing is saved.
func (p *pages) tryFilter(v *web.Visit) error {
	form, err := v.Form()
	if err != nil {
		return err
	}
	var of *subscriptions.Endpoint
	if v.R.PathValue("ep") != "" {
		_, e, err := p.endpointOf(v)
		if err != nil {
			return err
		}
		of = &e
	}
	types, err := p.catalogue(v.Ctx())
	if err != nil {
		return err
	}
	prefillSample(form, types)
	form.Values.Del("example")
	found, err := subscriptions.TestFilter(form.Get("filter"), subscriptions.FilterSample{
		ID: id.Event.Format(id.ID{Shard: v.Session.ID.Shard, N: 1}), Type: form.Get("sample_type"), CreatedAt: v.Now, Payload: []byte(form.Raw("sample")),
	})
	if err != nil {
		form.Faults = map[string]string{"filter": web.Reason(err)}
		return p.showForm(v, of, form, formShown{status: fault.HTTPStatus(fault.Invalid)})
	}
	return p.showForm(v, of, form, formShown{result: &filterResult{found.Matches, found.Error}})
}
