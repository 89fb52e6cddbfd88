// Package auth says who is calling and what they may do: keys of the HTTP API, sessions of people in browsers and links into
// a tenant's portal, all kept as hashes, and the gate that every caller passes.
//
// It does not read requests (the API takes the bearer token out of them, the pages the cookie), and it does not know what a
// route or a page needs: they ask the Principal.
package auth

import (
	"slices"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/id"
)

// Scope is one thing that a key allows.
type Scope string

// The scopes of CONTRACT §3.
const (
	EventsWrite     Scope = "events:write"
	EndpointsWrite  Scope = "endpoints:write"
	DeliveriesRead  Scope = "deliveries:read"
	DeliveriesWrite Scope = "deliveries:write"
	Admin           Scope = "admin" // everything; of one tenant, when the key is bound to one
)

// Scopes gives all of them.
func Scopes() []Scope {
	return []Scope{EventsWrite, EndpointsWrite, DeliveriesRead, DeliveriesWrite, Admin}
}

// Principal is who is calling.
type Principal struct {
	As     audit.ActorKind // what kind of somebody
	Key    id.ID           // of a key, and of a session that a key was exchanged for
	Name   string
	Scopes []Scope
	Tenant *id.ID // the one tenant it is bound to; nil: all tenants
}

// Has reports whether the caller may do what needs s. Admin may do everything, but see MaySee: scopes say what, the
// tenant says where.
func (p Principal) Has(s Scope) bool {
	return slices.Contains(p.Scopes, s) || slices.Contains(p.Scopes, Admin)
}

// MaySee reports whether the tenant exists for the caller. Where it does not, the answer is "not found", so that nobody
// learns of another's things. It holds for admin keys too: one that is bound to a tenant is that tenant's admin.
func (p Principal) MaySee(tenant id.ID) bool {
	return p.Tenant == nil || *p.Tenant == tenant
}

// SeesAll reports whether the caller is bound to no tenant. What belongs to no tenant (making tenants, the catalogue of
// event types, API keys, the audit log) needs this besides its scope.
func (p Principal) SeesAll() bool { return p.Tenant == nil }
