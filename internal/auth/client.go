package auth

import (
	"context"
	"net/netip"

	"github.com/postrider/postrider/internal/audit"
)

type clientKey struct{}

// WithClient gives a context of a request that comes from the address.
func WithClient(ctx context.Context, from netip.Addr) context.Context {
	return context.WithValue(ctx, clientKey{}, from)
}

// ClientOf is the address that the context's request comes from; the zero Addr: there is no request.
func ClientOf(ctx context.Context) netip.Addr {
	from, _ := ctx.Value(clientKey{}).(netip.Addr)
	return from
}

// ActorOf is the caller for the audit log, at the address of the context's client.
func ActorOf(ctx context.Context, p Principal) audit.Actor {
	by := audit.Actor{Kind: p.As, Name: p.Name, From: ClientOf(ctx)}
	if p.As == audit.ByKey {
		by.Key = p.Key
	}
	return by
}
