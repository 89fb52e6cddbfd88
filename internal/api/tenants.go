package api

import (
	"context"

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
	CreatedAt    stamp    `json:"created_at"`
	UpdatedAt    stamp    `json:"updated_at"`
}

func viewTenant(t subscriptions.Tenant) tenantView {
	return tenantView{
		ID: id.Tenant.Format(t.ID), UID: t.UID, Name: t.Name, ContactEmail: t.ContactEmail, Metadata: shown(t.Metadata),
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
	t, err := s.d.Subscriptions.CreateTenant(ctx, subscriptions.NewTenant{
		UID: in.Body.UID, Name: in.Body.Name, ContactEmail: in.Body.ContactEmail, Metadata: in.Body.Metadata,
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
	t, err := s.d.Subscriptions.UpdateTenant(ctx, id.Tenant.Format(tenantOf(ctx).ID), subscriptions.TenantPatch{
		UID: in.Body.UID.Optional, Name: in.Body.Name.Optional, ContactEmail: in.Body.ContactEmail.Optional,
		Metadata: convert(in.Body.Metadata, plainMetadata),
	})
	if err != nil {
		return nil, err
	}
	return &tenantOut{Body: viewTenant(t)}, nil
}

func plainMetadata(m metadata) (map[string]any, bool) { return m, true }

// deleteTenant takes the tenant away first, so that nothing new is made, and then cancels what is not finished.
func (s *server) deleteTenant(ctx context.Context, _ *TenantIn) (*struct{}, error) {
	_, endpoints, err := s.d.Subscriptions.DeleteTenant(ctx, id.Tenant.Format(tenantOf(ctx).ID))
	if err != nil {
		return nil, err
	}
	s.d.Keys.Forget()
	if _, err := s.d.Deliveries.CancelUnfinishedOf(ctx, endpoints, dispatcher.ReasonTenantDeleted); err != nil {
		return nil, err
	}
	return &struct{}{}, nil
}
