package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

// access says who may call a route.
type access struct {
	scope    auth.Scope // what the key has to have; "" with public and own
	public   bool       // no key at all
	operator bool       // and the key may not be bound to a tenant: what it touches is all tenants'
	own      bool       // admin, or any key that is bound to a tenant
	any      bool       // any key
	gone     bool       // the tenant may be deleted: the handler looks for it
}

var public = access{public: true}

func having(scope auth.Scope) access { return access{scope: scope} }

var (
	operators = access{scope: auth.Admin, operator: true}
	owners    = access{scope: auth.Admin, own: true}
	erasers   = access{scope: auth.Admin, operator: true, gone: true}
	anybody   = access{any: true}
)

func (a access) admits(p auth.Principal) bool {
	switch {
	case a.any:
		return true
	case a.own:
		return p.Has(auth.Admin) || !p.SeesAll()
	case a.operator && !p.SeesAll():
		return false
	}
	return p.Has(a.scope)
}

// gate is what stands before a route's handler, in the order in which a caller is told of faults: who are you (401), may
// you (403), is there such a tenant for you (404), and do you speak our language (413, 415, 422). Only then is the body
// read.
func (s *server) gate(rt route) func(huma.Context, func(huma.Context)) {
	hasTenant := strings.Contains(rt.path, "{tenant}")
	return func(ctx huma.Context, next func(huma.Context)) {
		if !rt.may.public {
			p, err := s.authenticate(ctx)
			if err == nil && !rt.may.admits(p) {
				err = s.forbidden(ctx, rt.may)
			}
			if err != nil {
				s.refuse(ctx, err)
				return
			}
			ctx = huma.WithValue(ctx, principalKey{}, p)
			ctx = huma.WithContext(ctx, audit.With(ctx.Context(), auth.ActorOf(ctx.Context(), p)))
		}
		if hasTenant && !rt.may.gone {
			t, err := pg.ReadAgain(ctx.Context(), func() (subscriptions.Tenant, error) {
				return s.visibleTenant(ctx.Context(), ctx.Param("tenant"))
			})
			if err != nil {
				s.refuse(ctx, err)
				return
			}
			ctx = huma.WithValue(ctx, tenantKey{}, t)
		}
		if err := checkForm(ctx, rt.act.takesJSON); err != nil {
			s.refuse(ctx, err)
			return
		}
		next(ctx)
	}
}

type (
	principalKey struct{}
	tenantKey    struct{}
)

// caller is whose key passed the gate.
func caller(ctx context.Context) auth.Principal {
	p, _ := ctx.Value(principalKey{}).(auth.Principal)
	return p
}

// tenantOf is the tenant that the path names, seen by the gate.
func tenantOf(ctx context.Context) subscriptions.Tenant {
	t, _ := ctx.Value(tenantKey{}).(subscriptions.Tenant)
	return t
}

// refuse answers with a problem.
func (s *server) refuse(ctx huma.Context, err error) {
	p := problemOf(err)
	_ = huma.WriteErr(s.api, ctx, p.Status, p.Detail, p) // whoever asked has gone
}

const realm = `Bearer realm="postrider"`

func (s *server) authenticate(ctx huma.Context) (auth.Principal, error) {
	scheme, token, _ := strings.Cut(strings.TrimSpace(ctx.Header("Authorization")), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") {
		token = ""
	}
	t := traceOf(ctx.Context())
	p, err := pg.ReadAgain(ctx.Context(), func() (auth.Principal, error) { return s.d.Door.Enter(ctx.Context(), token, t.from) })
	var wait auth.WaitError
	switch {
	case err == nil:
		t.key = p.Key
		return p, nil
	case token == "":
		ctx.SetHeader("WWW-Authenticate", realm)
	case fault.Is(err, fault.Unauthenticated):
		ctx.SetHeader("WWW-Authenticate", realm+`, error="invalid_token"`)
	case errors.As(err, &wait):
		ctx.SetHeader("Retry-After", strconv.Itoa(int(math.Ceil(wait.For.Seconds()))))
	}
	return auth.Principal{}, fmt.Errorf("authenticate: %w", err)
}

// forbidden answers as RFC 6750, section 3.1 has it.
func (*server) forbidden(ctx huma.Context, a access) error {
	ctx.SetHeader("WWW-Authenticate", fmt.Sprintf(`%s, error="insufficient_scope", scope="%s"`, realm, a.scope))
	if a.operator {
		return fault.New(fault.Forbidden, "this needs a key with the scope %s that is bound to no tenant", a.scope)
	}
	return fault.New(fault.Forbidden, "this needs a key with the scope %s", a.scope)
}

// visibleTenant finds a tenant by its id or uid. One that the caller may not see is answered like one that is not there.
func (s *server) visibleTenant(ctx context.Context, ref string) (subscriptions.Tenant, error) {
	p := caller(ctx)
	t, err := s.d.Subscriptions.Tenant(ctx, ref)
	if err == nil && !p.MaySee(t.ID) {
		err = fault.New(fault.NotFound, "no such tenant")
	}
	if fault.Is(err, fault.NotFound) {
		return subscriptions.Tenant{}, fault.New(fault.NotFound, "no such tenant")
	}
	if err == nil && t.UID != nil && *t.UID == ref {
		s.tenants.put(ref, t.ID)
	}
	return t, err
}

// checkForm looks at a request as far as that goes without its body.
func checkForm(ctx huma.Context, takesJSON bool) error {
	u := ctx.URL()
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fault.New(fault.Malformed, "the query string cannot be read")
	}
	var faults fault.Fields
	for name, values := range query {
		switch {
		case len(values) > 1:
			faults.Addf("?"+name, "is given %d times", len(values))
		case name == "tenant": // whatever it is: none that is there
		case !utf8.ValidString(values[0]) || strings.IndexByte(values[0], 0) >= 0: // PostgreSQL's text takes neither
			faults.Addf("?"+name, "is not UTF-8, or holds a NUL character")
		}
	}
	if err := faults.Err(); err != nil {
		return err
	}
	if err := checkGiven(ctx, query); err != nil {
		return err
	}
	limit := ctx.Operation().MaxBodyBytes - 1
	if rt := ceRouteOf(ctx.Operation()); rt != nil {
		r, _ := humago.Unwrap(ctx)
		mode := ceModeOf(r.Header)
		if err := rt.check(mode); err != nil {
			return err
		}
		if mode != notCE {
			limit, takesJSON = rt.limits[mode], false
		}
	}
	if limit >= 0 && contentLength(ctx) > limit {
		return fault.New(fault.TooLarge, "the body is over the limit of %d bytes", limit)
	}
	if contentLength(ctx) == 0 {
		return nil
	}
	if coding := ctx.Header("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		// A raw payload would go out as it came, without a word of its coding.
		ctx.SetHeader("Accept-Encoding", "identity") // RFC 9110, 12.5.3
		return fault.New(fault.UnsupportedMedia, "the body has to come without a Content-Encoding")
	}
	if !takesJSON {
		return nil
	}
	return checkJSONType(ctx.Method(), ctx.Header("Content-Type"))
}

const keyHeader = "Idempotency-Key"

// checkGiven refuses what a writing call is given empty. It would pass for not given, and with it the promise not to
// enqueue twice, or not before a time. Where lists are read, an empty filter is none.
func checkGiven(ctx huma.Context, query url.Values) error {
	if ctx.Method() != http.MethodPost {
		return nil
	}
	const refusal = "is empty; leave it out or give one"
	var empty fault.Fields
	for _, p := range ctx.Operation().Parameters {
		switch {
		case p.In == "query" && query.Has(p.Name) && query.Get(p.Name) == "":
			empty.Addf("?"+p.Name, refusal)
		case p.In == "header" && p.Name == keyHeader && slices.ContainsFunc(headerValues(ctx, keyHeader), isBlank):
			empty.Addf("", keyHeader+" "+refusal)
		}
	}
	return empty.Err()
}

func isBlank(s string) bool { return strings.TrimSpace(s) == "" }

// checkJSONType wants JSON to be declared: a form or a text that happens to be JSON is somebody's mistake, and a browser
// sends those across origins without asking.
func checkJSONType(method, given string) error {
	taken := []string{"application/json"}
	if method == http.MethodPatch {
		taken = append(taken, "application/merge-patch+json") // RFC 7396, which our patches follow
	}
	media, params, err := mime.ParseMediaType(given)
	charset, has := params["charset"]
	if err != nil || !slices.Contains(taken, media) || has && !strings.EqualFold(charset, "utf-8") {
		return fault.New(fault.UnsupportedMedia, "the body's Content-Type has to be %s", strings.Join(taken, " or "))
	}
	return nil
}
