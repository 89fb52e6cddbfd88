package auth

import "slices"

// Role is how much somebody may do in the console.
type Role string

// The roles, each with all that the one before it may.
const (
	RoleViewer  Role = "viewer"
	RoleSupport Role = "support"
	RoleAdmin   Role = "admin"
)

// Roles gives all of them, the least first.
func Roles() []Role { return []Role{RoleViewer, RoleSupport, RoleAdmin} }

// AtLeast reports whether the role is the other or above it. What is no role is below all.
func (r Role) AtLeast(other Role) bool {
	return slices.Contains(Roles(), r) && slices.Index(Roles(), r) >= slices.Index(Roles(), other)
}

// Scopes are what a role may. Who signs in with an API key has no more than the key has: see Sessions.
func (r Role) Scopes() []Scope {
	switch r {
	case RoleViewer:
		return []Scope{DeliveriesRead}
	case RoleSupport:
		return []Scope{DeliveriesRead, DeliveriesWrite, EndpointsWrite, EventsWrite}
	case RoleAdmin:
		return []Scope{Admin}
	}
	return nil
}

// roleOf is the role that a key's scopes make; "": none, for the console is for reading at least.
func roleOf(p Principal) Role {
	switch {
	case p.Has(Admin):
		return RoleAdmin
	case !p.Has(DeliveriesRead):
		return ""
	case p.Has(DeliveriesWrite) && p.Has(EndpointsWrite):
		return RoleSupport
	}
	return RoleViewer
}

// portalScopes are what somebody may in a tenant's own portal.
func portalScopes(readOnly bool) []Scope {
	if readOnly {
		return []Scope{DeliveriesRead}
	}
	return []Scope{EndpointsWrite, DeliveriesRead, DeliveriesWrite, EventsWrite}
}
