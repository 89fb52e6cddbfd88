package console

import (
	"net/url"
	"slices"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/internal/web"
)

type bulkPage struct {
	Kind    jobs.Kind
	Count   jobs.Count
	Query   []hiddenField // what is asked for, once more, for the form that says yes
	Back    string
	Filters []hiddenField // the same for people
}

type hiddenField struct{ Name, Value string }

// bulk says how many deliveries a retry or a cancellation is about: those that were chosen, or all that a filter means. It
// changes nothing; saying yes does.
func (p *pages) bulk(v *web.Visit) error {
	query := v.R.URL.Query()
	request, back, err := p.readBulk(v, query)
	if err != nil {
		return v.Refused(back, err)
	}
	if query.Has("span") && !request.Filter.Since.IsZero() { // the hour that is counted now is the one that is meant by the yes
		query.Del("span")
		query.Set("since", request.Filter.Since.UTC().Format(time.RFC3339Nano))
	}
	count, err := p.d.Jobs.Preview(v.Ctx(), request)
	if err != nil {
		return v.Refused(back, err)
	}
	data := bulkPage{Kind: request.Kind, Count: count, Back: back}
	for name, values := range query {
		for _, value := range values {
			if value == "" || name == "cursor" {
				continue
			}
			data.Query = append(data.Query, hiddenField{name, value})
			if len(request.IDs) == 0 && !slices.Contains(bulkFields, name) { // what was chosen is no matter of the list's filter
				data.Filters = append(data.Filters, hiddenField{name, value})
			}
		}
	}
	sortFields(data.Query)
	sortFields(data.Filters)
	title := map[jobs.Kind]string{jobs.Retry: "Retry deliveries", jobs.Cancel: "Cancel deliveries"}[request.Kind]
	return v.Show(web.Page{Name: "bulk", Title: title, Section: "deliveries", Data: data})
}

// postBulk makes the job that bulk has shown.
func (p *pages) postBulk(v *web.Visit) error {
	form, err := v.Form()
	if err != nil {
		return err
	}
	request, back, err := p.readBulk(v, form.Values)
	if err != nil {
		return v.Refused(back, err)
	}
	job, err := p.d.Jobs.Create(v.Ctx(), request)
	if err != nil {
		return v.Refused(back, err)
	}
	return v.Go(Base + "/jobs/" + id.Job.Format(job.ID))
}

// bulkFields are those that are no part of a filter.
var bulkFields = []string{"act", "chosen", "id"}

// readBulk reads what is to be done to which deliveries: `act`, and ids (`id`) or else a filter. Where rows were to be chosen
// (`chosen`) and none was, the empty filter that is left would mean every delivery there is. back is the list.
func (p *pages) readBulk(v *web.Visit, query url.Values) (r jobs.Request, back string, err error) {
	list := url.Values{}
	for name, values := range query {
		if !slices.Contains(bulkFields, name) {
			list[name] = values
		}
	}
	back = Base + "/deliveries?" + list.Encode()
	switch act := query.Get("act"); act {
	case string(jobs.Retry), string(jobs.Cancel):
		r.Kind = jobs.Kind(act)
	default:
		return r, back, fault.New(fault.Invalid, "there is nothing of the name %q that can be done to deliveries", act)
	}
	for _, text := range query["id"] {
		dlv, err := id.Delivery.Parse(text)
		if err != nil {
			return r, back, fault.New(fault.Invalid, "%q is no delivery", text)
		}
		r.IDs = append(r.IDs, dlv)
	}
	switch {
	case len(r.IDs) == 0 && query.Has("chosen"):
		return r, back, fault.New(fault.Invalid, "choose some deliveries first")
	case len(r.IDs) == 0:
		r.Filter, _, err = p.readFilter(v.Ctx(), web.Form{Values: list}, v.Now)
	}
	return r, back, err
}
