package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
)

// caller is one kind of key.
type caller struct {
	scope need
	bound string // "", "own" or "other's": the tenant it is bound to
	state string // "valid", "expired" or "revoked"
	text  string
}

func (k caller) String() string {
	return fmt.Sprintf("a key that is %s, has %s and is bound to %q", k.state, k.scope, k.bound)
}

// callers makes a key of each kind there is.
func (s *stage) callers(other string) []caller {
	s.t.Helper()
	var all []caller
	own, others := mustParse(s.t, id.Tenant, s.ids["tenant"]), mustParse(s.t, id.Tenant, other)
	for bound, tenant := range map[string]*id.ID{"": nil, "own": &own, "other's": &others} {
		for _, scope := range []need{events, endpoints, reading, acting, admin} {
			for _, state := range []string{"expired", "revoked", "valid"} {
				ends := s.clock.Now().Add(time.Hour)
				key, text, err := s.world.keys.Create(s.t.Context(), auth.NewKey{
					Name: "of the table", Scopes: []auth.Scope{auth.Scope(scope)}, Tenant: tenant, ExpiresAt: &ends,
				})
				if err == nil && state == "revoked" {
					err = s.world.keys.Revoke(s.t.Context(), key.ID)
				}
				if err == nil && state == "expired" {
					_, err = s.db.Exec(s.t.Context(), `UPDATE api_keys SET expires_at = now() - interval '1 ms' WHERE id = $1`, key.ID.N)
				}
				if err != nil {
					s.t.Fatal(err)
				}
				all = append(all, caller{scope, bound, state, text})
			}
		}
	}
	return all
}

// want is the status that the call gives this key. It is written down anew here, and not asked of the code.
func (k caller) want(c call) int {
	switch {
	case c.needs == nobody:
		return c.status
	case k.state != "valid":
		return http.StatusUnauthorized
	case c.needs == anybody: // the catalogue is no tenant's
		return c.status
	case c.needs == operator && (k.scope != admin || k.bound != ""):
		return http.StatusForbidden
	case c.needs == owner && k.scope != admin && k.bound == "":
		return http.StatusForbidden
	case c.needs != operator && c.needs != owner && k.scope != c.needs && k.scope != admin:
		return http.StatusForbidden
	case k.bound == "other's" && strings.Contains(c.path, "{"):
		return http.StatusNotFound
	}
	return c.status
}

// again is the status of a call that was done already.
func again(c call) int {
	switch {
	case c.method == http.MethodDelete:
		return http.StatusNotFound
	case strings.HasSuffix(c.path, "{dlv}/cancel"), strings.HasSuffix(c.path, "{job}/cancel"): // an event's cancels what is left, which may be nothing
		return http.StatusConflict
	}
	return c.status
}

// Every route, with every kind of key: a scope alone, bound to the tenant, to another or to none, valid, expired or
// revoked; and with no key, and with what is none.
func TestEveryRouteWithEveryKindOfKey(t *testing.T) {
	t.Parallel()
	for _, c := range calls {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			all := s.callers(s.tenant("third"))
			for _, text := range []string{"none", "x", "prk_malformed key", "prk_" + strings.Repeat("A", 43), strings.Repeat("k", 300)} {
				all = append(all, caller{state: "no key at all", text: text})
			}
			if len(all) != 5*3*3+5 {
				t.Fatalf("%d kinds of keys", len(all))
			}
			done := false
			for _, refused := range []bool{true, false} { // a call that is done may take away what the next is about
				for _, k := range all {
					want := k.want(c)
					if (want >= 300) != refused {
						continue
					}
					if done {
						want = again(c)
					}
					res := s.do(s.good(c, k.text))
					if res.status != want {
						t.Errorf("%v: %d, want %d: %s", k, res.status, want, res.body)
					}
					done = done || !refused
					if want == http.StatusOK && c.needs != anybody && k.bound == "other's" && len(res.tree(t).list("data")) > 0 && !onlyOf(res.tree(t), k) {
						t.Errorf("%v lists what is not its own: %s", k, res.body)
					}
				}
			}
		})
	}
}

// onlyOf reports whether a list holds nothing of the first tenant, which the key is not bound to.
func onlyOf(list tree, k caller) bool {
	for _, thing := range list.list("data") {
		if thing.object("actor") == nil || k.scope != admin { // but for the audit log, the other tenant has nothing
			return false
		}
	}
	return true
}

// What is said of a key that has expired or was revoked is what is said of one that never was.
func TestKeysThatEndedAreToldLikeUnknownOnes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	answers := map[string]string{}
	for _, k := range append(s.callers(s.tenant("third")), caller{state: "unknown", text: "prk_" + strings.Repeat("A", 43)}) {
		if k.state != "valid" {
			res := s.do(request{method: "GET", path: "/v1/deliveries", key: k.text})
			answers[k.state] = fmt.Sprint(res.status, res.header.Get("WWW-Authenticate"), string(res.body))
		}
	}
	if len(answers) != 3 || answers["expired"] != answers["unknown"] || answers["revoked"] != answers["unknown"] {
		t.Errorf("they are told apart: %v", answers)
	}
}
