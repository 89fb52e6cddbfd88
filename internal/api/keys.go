package api

import (
	"context"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

// KeyView is an API key in an answer. Its text is shown once, by the call that made it.
type KeyView struct {
	ID         string   `json:"id" example:"key_07xk9v0e8g00000"`
	Name       string   `json:"name"`
	Hint       string   `json:"hint" doc:"The key's first characters."`
	Scopes     []string `json:"scopes" nullable:"false"`
	TenantID   *string  `json:"tenant_id" doc:"The one tenant it is bound to; null: all."`
	CreatedAt  stamp    `json:"created_at"`
	ExpiresAt  *stamp   `json:"expires_at" nullable:"true" doc:"From then on it is refused; null: never."`
	LastUsedAt *stamp   `json:"last_used_at" nullable:"true" doc:"To the minute or so."`
}

func viewKey(k auth.Key) KeyView {
	v := KeyView{
		ID: id.Key.Format(k.ID), Name: k.Name, Hint: k.Hint, Scopes: make([]string, len(k.Scopes)),
		CreatedAt: stamp(k.CreatedAt), ExpiresAt: stampOf(k.ExpiresAt), LastUsedAt: stampOf(k.LastUsedAt),
	}
	for i, scope := range k.Scopes {
		v.Scopes[i] = string(scope)
	}
	if k.Tenant != nil {
		tenant := id.Tenant.Format(*k.Tenant)
		v.TenantID = &tenant
	}
	return v
}

type createdKeyView struct {
	KeyView
	Key string `json:"key" doc:"The key itself, only this once."`
}

type newKey struct {
	Name      string   `json:"name" example:"shop backend"`
	Scopes    []string `json:"scopes" example:"[\"events:write\"]" doc:"events:write, endpoints:write, deliveries:read, deliveries:write, admin."`
	Tenant    *string  `json:"tenant,omitempty" nullable:"true" doc:"A tenant's id or uid: the key is bound to it."`
	ExpiresAt *string  `json:"expires_at,omitempty" nullable:"true" format:"date-time" doc:"When it ends by itself, at most ten years ahead; absent: never."`
}

func (newKey) example() string { return `{"name":"shop backend","scopes":["events:write"]}` }

type createKeyIn struct{ Body newKey }

type createKeyOut struct {
	Location string `header:"Location"`
	Body     createdKeyView
}

func (s *server) createKey(ctx context.Context, in *createKeyIn) (*createKeyOut, error) {
	n := auth.NewKey{Name: in.Body.Name, Scopes: make([]auth.Scope, len(in.Body.Scopes))}
	for i, scope := range in.Body.Scopes {
		n.Scopes[i] = auth.Scope(scope)
	}
	if in.Body.Tenant != nil {
		t, err := s.d.Subscriptions.Tenant(ctx, *in.Body.Tenant)
		if fault.Is(err, fault.NotFound) {
			err = fault.InvalidAt("/tenant", "there is no such tenant")
		}
		if err != nil {
			return nil, err
		}
		n.Tenant = &t.ID
	}
	if in.Body.ExpiresAt != nil {
		var faults fault.Fields
		end := parseTime(&faults, "/expires_at", *in.Body.ExpiresAt)
		if err := faults.Err(); err != nil {
			return nil, err
		}
		n.ExpiresAt = &end
	}
	k, text, err := s.d.Keys.Create(ctx, n)
	if err != nil {
		return nil, err
	}
	view := viewKey(k)
	return &createKeyOut{Location: "/v1/api-keys/" + view.ID, Body: createdKeyView{KeyView: view, Key: text}}, nil
}

func (s *server) listKeys(ctx context.Context, in *PageIn) (*pageOut[KeyView], error) {
	return readPage(id.Key, *in, func(limit int, before id.ID) ([]auth.Key, error) {
		return s.d.Keys.List(ctx, limit, before)
	}, viewKey, func(k auth.Key) id.ID { return k.ID })
}

type keyIn struct {
	Key string `path:"key" doc:"The key's id." example:"key_07xk9v0e8g00000"`
}

func (in keyIn) parse() (id.ID, error) {
	k, err := id.Key.Parse(in.Key)
	if err != nil {
		return id.ID{}, fault.New(fault.NotFound, "no such API key")
	}
	return k, nil
}

type keyOut struct{ Body KeyView }

func (s *server) readKey(ctx context.Context, in *keyIn) (*keyOut, error) {
	at, err := in.parse()
	if err != nil {
		return nil, err
	}
	k, err := s.d.Keys.Get(ctx, at)
	if err != nil {
		return nil, err
	}
	return &keyOut{Body: viewKey(k)}, nil
}

func (s *server) revokeKey(ctx context.Context, in *keyIn) (*struct{}, error) {
	at, err := in.parse()
	if err != nil {
		return nil, err
	}
	if err := s.d.Keys.Revoke(ctx, at); err != nil {
		return nil, err
	}
	return &struct{}{}, nil
}
