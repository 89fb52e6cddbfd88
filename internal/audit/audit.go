// Package audit keeps the audit log: who did what to which thing, from where. It is the one writer of the table audit_log.
//
// Whoever changes a thing calls Write or Queue inside the transaction of the change, so that the two stand or fall
// together. Who acts travels in the context: the API's gate puts the key there, a page whoever's
// session it is, a command the user of the machine; where nobody did, it is Postrider itself.
//
// It does not judge who may do what, and it does not log what is no act of somebody's: enqueueing and attempts have records
// of their own, in masses. An act that was refused or came to nothing is not in it.
package audit

import (
	"context"
	"net/netip"

	"github.com/postrider/postrider/internal/id"
)

// Action is what was done. Its value is what the API and the database show.
type Action string

// The actions.
const (
	TenantCreated Action = "tenant.created"
	TenantUpdated Action = "tenant.updated"
	TenantDeleted Action = "tenant.deleted"
	TenantErased  Action = "tenant.erased" // of its other entries none is left

	EndpointCreated       Action = "endpoint.created" // its secret was shown, once
	EndpointUpdated       Action = "endpoint.updated"
	EndpointStatusChanged Action = "endpoint.status_changed"
	EndpointDeleted       Action = "endpoint.deleted"
	SecretRevealed        Action = "endpoint.secret_revealed"
	SecretRotated         Action = "endpoint.secret_rotated"
	EndpointTested        Action = "endpoint.tested"

	DeliveryRetried   Action = "delivery.retried"
	DeliveryCancelled Action = "delivery.cancelled"
	EventCancelled    Action = "event.cancelled"
	RequestShown      Action = "delivery.request_shown" // with a signature, and what is secret in the endpoint's headers

	JobCreated   Action = "job.created" // it acts on many deliveries, which have no entries of their own
	JobCancelled Action = "job.cancelled"

	ScheduleCreated Action = "schedule.created"
	ScheduleUpdated Action = "schedule.updated"
	ScheduleDeleted Action = "schedule.deleted"
	ScheduleRun     Action = "schedule.run" // by hand, beside its times; what it does by itself is events

	AlertAcknowledged Action = "alert.acknowledged"
	AlertResolved     Action = "alert.resolved"

	EventTypeCreated Action = "event_type.created"
	EventTypeUpdated Action = "event_type.updated"
	EventTypeDeleted Action = "event_type.deleted"

	KeyCreated Action = "api_key.created"
	KeyRevoked Action = "api_key.revoked"

	SessionStarted    Action = "session.started" // somebody signed in to the console
	SessionEnded      Action = "session.ended"   // signed out, of the console or a portal; what ends by itself is no act
	PortalLinkCreated Action = "portal.link_created"
	PortalEntered     Action = "portal.entered" // by a link, which is spent
)

// Actions gives all of them.
func Actions() []Action {
	return []Action{
		TenantCreated, TenantUpdated, TenantDeleted, TenantErased,
		EndpointCreated, EndpointUpdated, EndpointStatusChanged, EndpointDeleted, SecretRevealed, SecretRotated, EndpointTested,
		DeliveryRetried, DeliveryCancelled, EventCancelled, RequestShown, JobCreated, JobCancelled, AlertAcknowledged, AlertResolved,
		ScheduleCreated, ScheduleUpdated, ScheduleDeleted, ScheduleRun,
		EventTypeCreated, EventTypeUpdated, EventTypeDeleted, KeyCreated, KeyRevoked,
		SessionStarted, SessionEnded, PortalLinkCreated, PortalEntered,
	}
}

// ActorKind is what kind of somebody acts.
type ActorKind string

// The kinds.
const (
	ByKey    ActorKind = "api_key" // over the API, or in the console after signing in with it
	ByUser   ActorKind = "user"    // in the console, signed in through the OpenID provider
	ByPortal ActorKind = "portal"  // in a tenant's own portal
	ByCLI    ActorKind = "cli"     // a command that writes to the database itself
	BySystem ActorKind = "system"  // Postrider, by its rules
)

// Actor is who acts.
type Actor struct {
	Kind ActorKind
	Key  id.ID      // of ByKey
	Name string     // the key's name, the user's, the tenant's of a portal, the user of the machine, the part of Postrider
	From netip.Addr // the client's address; the zero Addr: there is none
}

// System is Postrider itself: part says which of it.
func System(part string) Actor { return Actor{Kind: BySystem, Name: part} }

// CLI is a user of the machine that a command runs on.
func CLI(user string) Actor { return Actor{Kind: ByCLI, Name: user} }

type actorKey struct{}

// With gives a context whose acts are this actor's.
func With(ctx context.Context, by Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, by)
}

// ActorOf is who acts in the context: Postrider itself where nobody was put there.
func ActorOf(ctx context.Context) Actor {
	if by, ok := ctx.Value(actorKey{}).(Actor); ok {
		return by
	}
	return System("postrider")
}

// Thing is what was acted on.
type Thing struct {
	Kind id.Kind
	ID   id.ID
}

// Entry is one act, before it is written.
type Entry struct {
	Action Action
	Object Thing
	Tenant *id.ID // whose thing it is; nil: the operator's
	// Details are what there is to say beside. Never a secret, the value of a header, a key, or what a URL has after its path.
	Details Details
}
