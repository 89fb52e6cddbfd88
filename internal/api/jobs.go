package api

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/jobs"
)

// jobView is a job in an answer.
type jobView struct {
	ID             string         `json:"id" example:"job_07xk9v0e8g0003f"`
	TenantID       *string        `json:"tenant_id" doc:"null of one over all tenants."`
	Kind           string         `json:"kind" enum:"retry,cancel,replay,erase"`
	State          string         `json:"state" enum:"queued,running,succeeded,failed,cancelled"`
	Filter         map[string]any `json:"filter" doc:"What was asked for."`
	Matched        int64          `json:"matched" doc:"How many are meant: deliveries; of a replay, events for each endpoint."`
	MatchedAtLeast bool           `json:"matched_at_least" doc:"There may be more: counting all would have taken too long. A job knows when it has found all."`
	Done           int64          `json:"done" doc:"Those that it has dealt with."`
	Skipped        int64          `json:"skipped" doc:"Those that could not be any more when their turn came: in flight, or changed meanwhile."`
	Error          *string        `json:"error" doc:"Why it failed."`
	CreatedBy      string         `json:"created_by"`
	CreatedAt      stamp          `json:"created_at"`
	StartedAt      *stamp         `json:"started_at" nullable:"true"`
	FinishedAt     *stamp         `json:"finished_at" nullable:"true"`
}

func viewJob(j jobs.Job) jobView {
	v := jobView{
		ID: id.Job.Format(j.ID), Kind: string(j.Kind), State: string(j.State), Filter: map[string]any{}, Matched: j.Matched,
		MatchedAtLeast: j.MatchedAtLeast, Done: j.Done, Skipped: j.Skipped, Error: unlessEmpty(j.Error), CreatedBy: j.CreatedBy,
		CreatedAt: stamp(j.CreatedAt()), StartedAt: stampOf(j.StartedAt), FinishedAt: stampOf(j.FinishedAt),
	}
	_ = json.Unmarshal(j.Spec, &v.Filter) // ours, and only shown
	if j.Tenant != nil {
		tenant := id.Tenant.Format(*j.Tenant)
		v.TenantID = &tenant
	}
	return v
}

// countView is what a dry run answers.
type countView struct {
	Kind           string `json:"kind" enum:"retry,cancel,replay"`
	Matched        int64  `json:"matched" doc:"How many are meant: deliveries; of a replay, events for each endpoint."`
	MatchedAtLeast bool   `json:"matched_at_least" doc:"There may be more: it counts for some seconds, and to 100,000 or a little above."`
}

// jobAnswer is a job, or of a dry run the count: a 202 or a 200.
type jobAnswer struct{ view any }

// MarshalJSON writes the one that it is.
func (a jobAnswer) MarshalJSON() ([]byte, error) {
	return json.Marshal(a.view) //nolint:wrapcheck // nothing to add
}

// Schema is a job's; dryRun documents the other.
func (jobAnswer) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[jobView](), true, "")
}

// andCounts documents that a route answers a dry run with a count, and may answer with these errors as well.
func (s *server) andCounts(errors ...int) func(*huma.Operation) {
	return func(op *huma.Operation) {
		s.counts(op)
		also(errors...)(op)
	}
}

func (s *server) counts(op *huma.Operation) {
	schema := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[countView](), true, "")
	op.Responses["200"] = &huma.Response{
		Description: "Of a dry run: how many it would be. Nothing is made.",
		Content:     map[string]*huma.MediaType{jsonType: {Schema: schema}},
	}
}

type jobMadeOut struct {
	Status     int
	Location   string `header:"Location"`
	RetryAfter string `header:"Retry-After"`
	Body       jobAnswer
}

// job makes a job, or counts what it would be about.
func (s *server) job(ctx context.Context, r jobs.Request, dryRun bool) (*jobMadeOut, error) {
	if dryRun {
		c, err := s.d.Jobs.Preview(ctx, r)
		if err != nil {
			return nil, err
		}
		return &jobMadeOut{Status: http.StatusOK, Body: jobAnswer{countView{
			Kind: string(r.Kind), Matched: c.Matched, MatchedAtLeast: c.AtLeast,
		}}}, nil
	}
	j, err := s.d.Jobs.Create(ctx, r)
	if err != nil {
		return nil, err
	}
	return jobMade(j), nil
}

func jobMade(j jobs.Job) *jobMadeOut {
	return &jobMadeOut{
		Status: http.StatusAccepted, Location: "/v1/jobs/" + id.Job.Format(j.ID), RetryAfter: "1", Body: jobAnswer{viewJob(j)},
	}
}

type jobOut struct{ Body jobView }

type listJobsIn struct {
	PageIn
	Tenant string `query:"tenant" maxLength:"200" doc:"A tenant's id or uid."`
}

func (s *server) listJobs(ctx context.Context, in *listJobsIn) (*pageOut[jobView], error) {
	tenant, err := s.tenantFilter(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	return readPage(id.Job, in.PageIn, func(limit int, before id.ID) ([]jobs.Job, error) {
		return s.d.Jobs.List(ctx, tenant, limit, before)
	}, viewJob, func(j jobs.Job) id.ID { return j.ID })
}

type jobIn struct {
	Job string `path:"job" doc:"The job's id." example:"job_07xk9v0e8g0003f"`
}

func (s *server) readJob(ctx context.Context, in *jobIn) (*jobOut, error) {
	j, err := s.visibleJob(ctx, in.Job)
	if err != nil {
		return nil, err
	}
	return &jobOut{Body: viewJob(j)}, nil
}

func (s *server) cancelJob(ctx context.Context, in *jobIn) (*jobOut, error) {
	j, err := s.visibleJob(ctx, in.Job)
	if err != nil {
		return nil, err
	}
	if j, err = s.d.Jobs.Cancel(ctx, j.ID); err != nil {
		return nil, err
	}
	return &jobOut{Body: viewJob(j)}, nil
}

// visibleJob finds a job. To a key that is bound to a tenant there are that one's jobs and no others.
func (s *server) visibleJob(ctx context.Context, ref string) (jobs.Job, error) {
	missing := fault.New(fault.NotFound, "no such job")
	at, err := id.Job.Parse(ref)
	if err != nil {
		return jobs.Job{}, missing
	}
	j, err := s.d.Jobs.Get(ctx, at)
	if bound := caller(ctx).Tenant; err == nil && bound != nil && (j.Tenant == nil || *j.Tenant != *bound) {
		return jobs.Job{}, missing
	}
	return j, err
}
