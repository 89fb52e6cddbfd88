package auth_test

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGate(t *testing.T) {
	t.Parallel()
	ours, theirs := id.ID{Shard: 1, N: 10}, id.ID{Shard: 2, N: 10}
	for _, test := range []struct {
		name                    string
		p                       auth.Principal
		scope                   auth.Scope
		has, ours, theirs, sees bool
	}{
		{"nobody", auth.Principal{}, auth.EventsWrite, false, true, true, true},
		{"the scope itself", auth.Principal{Scopes: []auth.Scope{auth.EventsWrite}}, auth.EventsWrite, true, true, true, true},
		{"another scope", auth.Principal{Scopes: []auth.Scope{auth.DeliveriesWrite}}, auth.DeliveriesRead, false, true, true, true},
		{"admin", auth.Principal{Scopes: []auth.Scope{auth.Admin}}, auth.DeliveriesRead, true, true, true, true},
		{"no scope makes an admin", auth.Principal{Scopes: auth.Scopes()[:4]}, auth.Admin, false, true, true, true},
		{"a tenant's key", auth.Principal{Scopes: auth.Scopes()[:1], Tenant: &ours}, auth.EventsWrite, true, true, false, false},
		{"a tenant's admin", auth.Principal{Scopes: []auth.Scope{auth.Admin}, Tenant: &ours}, auth.Admin, true, true, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := test.p.Has(test.scope); got != test.has {
				t.Errorf("Has(%s) = %v", test.scope, got)
			}
			if got := test.p.MaySee(ours); got != test.ours {
				t.Errorf("MaySee(its tenant) = %v", got)
			}
			if got := test.p.MaySee(theirs); got != test.theirs {
				t.Errorf("MaySee(another tenant) = %v", got)
			}
			if got := test.p.SeesAll(); got != test.sees {
				t.Errorf("SeesAll() = %v", got)
			}
		})
	}
}

func ExamplePrincipal_MaySee() {
	tenant, other := id.ID{Shard: 7, N: 1}, id.ID{Shard: 9, N: 2}
	p := auth.Principal{Scopes: []auth.Scope{auth.Admin}, Tenant: &tenant}
	fmt.Println(p.Has(auth.EventsWrite), p.MaySee(tenant), p.MaySee(other))
	// Output: true true false
}
