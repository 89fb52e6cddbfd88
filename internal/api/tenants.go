package api

import (
	"context"
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// tenantView is a tenant in an answer.
type tenantView struct {
	ID           string   `json:"id" example:"ten_07xk9v0e8g0003f"`
	UID          *string  `json:"uid" doc:"Your own name for it."`
	Name         string   `json:"name"`
	ContactEmail *string  `json:"contact_email"`
	Metadata     metadata `json:"metadata"`
	Retention    keepView `json:"retention"`
	CreatedAt    stamp    `json:"created_at"`
	UpdatedAt    stamp    `json:"updated_at"`
}

// keepView is for how long a tenant's history is kept.
type keepView struct {
	Events   *string `json:"events" example:"90d" doc:"null: as of all tenants."`
	Attempts *string `json:"attempts" example:"90d" doc:"null: as of all tenants."`
}

func viewTenant(t subscriptions.Tenant) tenantView {
	return tenantView{
		ID: id.Tenant.Format(t.ID), UID: t.UID, Name: t.Name, ContactEmail: t.ContactEmail, Metadata: shown(t.Metadata),
		Retention: keepView{Events: formatSpan(t.Retention.Events), Attempts: formatSpan(t.Retention.Attempts)},
		CreatedAt: stamp(t.CreatedAt), UpdatedAt: stamp(t.UpdatedAt),
	}
}

type tenantOut struct{ Body tenantView }

// TenantIn is the path of everything that belongs to a tenant. Handlers take the tenant from the gate (tenantOf).
type TenantIn struct {
	Tenant string `path:"tenant" doc:"The tenant's id or uid." example:"acme"`
}

type newTenant struct {
	UID          *string  `json:"uid,omitempty" nullable:"true" doc:"Your own name for it; it then stands in paths as well." example:"acme"`
	Name         string   `json:"name" example:"Acme Events"`
	ContactEmail *string  `json:"contact_email,omitempty" nullable:"true" example:"ops@acme.example"`
	Metadata     metadata `json:"metadata,omitempty" nullable:"true" doc:"Anything you want to keep with it."`
	Retention    *newKeep `json:"retention,omitempty" doc:"For how long its history is kept, where that is not what holds for all."`
}

type newKeep struct {
	_        struct{} `nullable:"true"`
	Events   *string  `json:"events,omitempty" nullable:"true" example:"90d" doc:"Events and their payloads, 1d to 3650d."`
	Attempts *string  `json:"attempts,omitempty" nullable:"true" example:"90d" doc:"Attempts, 1d to 3650d. Deliveries are kept for the longer of both."`
}

func (b *newKeep) read(faults *fault.Fields) (out subscriptions.Retention) {
	if b == nil {
		return out
	}
	for _, field := range []struct {
		at   string
		from *string
		to   **time.Duration
	}{{"/retention/events", b.Events, &out.Events}, {"/retention/attempts", b.Attempts, &out.Attempts}} {
		if field.from == nil {
			continue
		}
		if d, ok := parseSpan(faults, field.at, *field.from); ok {
			*field.to = &d
		}
	}
	return out
}

func (newTenant) example() string {
	return `{"uid":"acme","name":"Acme Events","contact_email":"ops@acme.example"}`
}

type createTenantIn struct{ Body newTenant }

type createTenantOut struct {
	Location string `header:"Location"`
	Body     tenantView
}

func (s *server) createTenant(ctx context.Context, in *createTenantIn) (*createTenantOut, error) {
	var faults fault.Fields
	keep := in.Body.Retention.read(&faults)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	t, err := s.d.Subscriptions.CreateTenant(ctx, subscriptions.NewTenant{
		UID: in.Body.UID, Name: in.Body.Name, ContactEmail: in.Body.ContactEmail, Metadata: in.Body.Metadata, Retention: keep,
	})
	if err != nil {
		return nil, err
	}
	view := viewTenant(t)
	return &createTenantOut{Location: "/v1/tenants/" + view.ID, Body: view}, nil
}

func (s *server) listTenants(ctx context.Context, in *PageIn) (*pageOut[tenantView], error) {
	return readPage(id.Tenant, *in, func(limit int, before id.ID) ([]subscriptions.Tenant, error) {
		return s.d.Subscriptions.Tenants(ctx, limit, before)
	}, viewTenant, func(t subscriptions.Tenant) id.ID { return t.ID })
}

func (*server) readTenant(ctx context.Context, _ *TenantIn) (*tenantOut, error) {
	return &tenantOut{Body: viewTenant(tenantOf(ctx))}, nil
}

type tenantPatch struct {
	UID          optional[string]   `json:"uid,omitempty" nullable:"true" doc:"Only a key that is bound to no tenant changes it."`
	Name         optional[string]   `json:"name,omitempty"`
	ContactEmail optional[string]   `json:"contact_email,omitempty" nullable:"true"`
	Metadata     optional[metadata] `json:"metadata,omitempty" nullable:"true" doc:"Replaced as a whole."`

	Retention optional[keepPatch] `json:"retention,omitempty" doc:"null, here or within: as of all tenants. Only a key that is bound to no tenant changes it."`
}

type keepPatch struct {
	_        struct{}         `nullable:"true"`
	Events   optional[string] `json:"events,omitempty" nullable:"true" doc:"1d to 3650d."`
	Attempts optional[string] `json:"attempts,omitempty" nullable:"true" doc:"1d to 3650d."`
}

// keep gives what shall be different of each time.
func (p tenantPatch) keep(faults *fault.Fields) (events, attempts subscriptions.Optional[time.Duration]) {
	b := p.Retention
	if b.Value == nil { // null takes both away
		return subscriptions.Optional[time.Duration]{Given: b.Given}, subscriptions.Optional[time.Duration]{Given: b.Given}
	}
	span := func(at string) func(string) (time.Duration, bool) {
		return func(text string) (time.Duration, bool) { return parseSpan(faults, at, text) }
	}
	return convert(b.Value.Events, span("/retention/events")), convert(b.Value.Attempts, span("/retention/attempts"))
}

func (tenantPatch) example() string { return `{"name":"Acme Events Ltd","contact_email":null}` }

type updateTenantIn struct {
	TenantIn
	Body tenantPatch
}

// updateTenant leaves a uid to keys that are bound to no tenant: producers name tenants by it, so whoever could take one that
// another tenant had, or is to have, would get what is enqueued for that one.
func (s *server) updateTenant(ctx context.Context, in *updateTenantIn) (*tenantOut, error) {
	if uid := in.Body.UID; uid.Given && !caller(ctx).SeesAll() && text(uid.Value) != text(tenantOf(ctx).UID) {
		return nil, fault.New(fault.Forbidden, "to change the uid needs a key with the scope admin that is bound to no tenant")
	}
	if in.Body.Retention.Given && !caller(ctx).SeesAll() {
		return nil, fault.New(fault.Forbidden, "to change the retention needs a key with the scope admin that is bound to no tenant")
	}
	var faults fault.Fields
	events, attempts := in.Body.keep(&faults)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	t, err := s.d.Subscriptions.UpdateTenant(ctx, id.Tenant.Format(tenantOf(ctx).ID), subscriptions.TenantPatch{
		UID: in.Body.UID.Optional, Name: in.Body.Name.Optional, ContactEmail: in.Body.ContactEmail.Optional,
		Metadata: convert(in.Body.Metadata, plainMetadata), KeepEvents: events, KeepAttempts: attempts,
	})
	if err != nil {
		return nil, err
	}
	return &tenantOut{Body: viewTenant(t)}, nil
}

func plainMetadata(m metadata) (map[string]any, bool) { return m, true }

// deleteTenant takes the tenant away first, so that nothing new is made, and then cancels what is not finished.
func (s *server) deleteTenant(ctx context.Context, _ *TenantIn) (*struct{}, error) {
	if err := s.takeAway(ctx, tenantOf(ctx)); err != nil {
		return nil, err
	}
	return &struct{}{}, nil
}

func (s *server) takeAway(ctx context.Context, t subscriptions.Tenant) error {
	_, endpoints, err := s.d.Subscriptions.DeleteTenant(ctx, id.Tenant.Format(t.ID))
	if err != nil {
		return err
	}
	s.d.Keys.Forget()
	_, err = s.d.Deliveries.CancelUnfinishedOf(ctx, endpoints, dispatcher.ReasonTenantDeleted)
	return err
}

type eraseTenantIn struct {
	TenantIn
	Body struct {
		Confirm string `json:"confirm" doc:"The tenant's id or uid once more: it cannot be taken back." example:"acme"`
	}
}

// eraseTenant deletes the tenant, unless it is deleted, in which case its id is what it is still known by, and has it erased.
func (s *server) eraseTenant(ctx context.Context, in *eraseTenantIn) (*jobMadeOut, error) {
	ref := in.Tenant
	t, err := s.d.Subscriptions.Tenant(ctx, ref)
	gone := fault.Is(err, fault.NotFound)
	if gone {
		t, err = s.d.Subscriptions.DeletedTenant(ctx, ref)
	}
	if err != nil {
		return nil, err
	}
	if given := in.Body.Confirm; given != id.Tenant.Format(t.ID) && given != text(t.UID) || given == "" {
		return nil, fault.InvalidAt("/confirm", "is not the tenant's id or uid")
	}
	if !gone {
		if err := s.takeAway(ctx, t); err != nil {
			return nil, err
		}
	}
	j, err := s.d.Jobs.Erase(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	return jobMade(j), nil
}
