package console

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/internal/web"
)

type jobsPage struct {
	Rows  []jobs.Job
	Pager web.Pager
}

func (p *pages) jobs(v *web.Visit) error {
	var faults fault.Fields
	before := readCursor(&faults, web.Form{Values: v.R.URL.Query()}, id.Job)
	if err := faults.Err(); err != nil {
		return err
	}
	found, err := p.d.Jobs.List(v.Ctx(), nil, web.PageSize+1, before)
	if err != nil {
		return err
	}
	found, next := web.Cut(found, func(j jobs.Job) id.ID { return j.ID })
	return v.Show(web.Page{Name: "jobs", Title: "Jobs", Section: "jobs", Data: jobsPage{found, web.PagerOf(v.R.URL, id.Job, next)}})
}

type jobPage struct {
	jobs.Job
	Asked []hiddenField
}

// job shows how far a job has come. While it runs the page looks again by itself.
func (p *pages) job(v *web.Visit) error {
	job, err := v.PathID("job", id.Job, "job")
	if err != nil {
		return err
	}
	found, err := p.d.Jobs.Get(v.Ctx(), job)
	if err != nil {
		return err
	}
	return v.Show(web.Page{
		Name: "job", Title: "Job " + id.Job.Format(job), Section: "jobs", Data: jobPage{Job: found, Asked: asked(found.Spec)},
	})
}

func (p *pages) cancelJob(v *web.Visit) error {
	job, err := v.PathID("job", id.Job, "job")
	if err != nil {
		return err
	}
	page := Base + "/jobs/" + id.Job.Format(job)
	if _, err := p.d.Jobs.Cancel(v.Ctx(), job); err != nil {
		return v.Refused(page, err)
	}
	return v.Done(page, "The job is cancelled. What it has done stays done.")
}

// asked lays out what a job was asked for.
func asked(spec json.RawMessage) []hiddenField {
	var fields map[string]any
	if json.Unmarshal(spec, &fields) != nil {
		return nil
	}
	var out []hiddenField
	for name, value := range fields {
		if many, ok := value.([]any); ok {
			words := make([]string, len(many))
			for i, one := range many {
				words[i] = spell(one)
			}
			out = append(out, hiddenField{name, strings.Join(words, ", ")})
			continue
		}
		out = append(out, hiddenField{name, spell(value)})
	}
	sortFields(out)
	return out
}

func spell(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return string(b)
}

func sortFields(fields []hiddenField) {
	slices.SortFunc(fields, func(a, b hiddenField) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value)) })
}
