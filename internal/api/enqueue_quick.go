package api

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
)

// quick is a shorter way for the three calls that enqueue, which are nearly all calls there are. It knows good requests of
// the usual kind only: an Authorization that passes, a tenant it can name, a body of announced length that readEnvelope
// takes. Everything else, each fault in a request included, is for the general way (huma's), which finds the request as
// it came. So there is one place that says what is wrong with a request, and one description of what may be in it.
type quick struct {
	single, batch, raw quickRoute
}

// quickRoute is what the table of routes says of a call.
type quickRoute struct {
	may       access
	takesJSON bool
	pattern   string // as the mux has it, for the log
	limit     int64  // of the body, in bytes
}

// quickLimit is how large a body may be to be read at once into memory that is taken before it comes.
const quickLimit = 2 << 20

func newQuick(groups []group) *quick {
	q := &quick{}
	into := map[string]*quickRoute{"enqueue-event": &q.single, "enqueue-batch": &q.batch, "enqueue-raw-event": &q.raw}
	for _, g := range groups {
		for _, rt := range g.routes {
			if to := into[rt.id]; to != nil {
				op := huma.Operation{}
				rt.more(&op)
				*to = quickRoute{rt.may, rt.act.takesJSON, rt.method + " " + rt.path, min(op.MaxBodyBytes-1, quickLimit)} // see limit
			}
		}
	}
	return q
}

// enqueueQuickly answers a request, or says that it is for the general way.
func (s *server) enqueueQuickly(w http.ResponseWriter, r *http.Request, t *trace) (done bool) {
	rt, ref, eventType := s.quickRoute(r)
	if rt == nil || !rt.inOrder(r) {
		return false
	}
	p, ok := s.quickCaller(rt, r, t)
	if !ok {
		return false
	}
	tenant, uid, ok := s.quickTenant(p, ref)
	if !ok {
		return false
	}
	body, problem := s.wholeBody(w, r)
	if problem != nil { // for the general way it is too late: a request that cannot be read on has its context cancelled
		r.Pattern, t.key = rt.pattern, p.Key
		answerProblem(w, t, problem)
		return true
	}
	call := intake.Call{Tenant: tenant, TenantUID: uid, Key: r.Header.Get(keyHeader), Batch: rt == &s.quick.batch}
	switch rt {
	case &s.quick.raw:
		call.Events = []intake.Event{{Type: eventType, ContentType: r.Header.Get("Content-Type"), Payload: body}}
	case &s.quick.batch:
		call.Events, ok = readBatch(body)
	default:
		call.Events = make([]intake.Event, 1)
		call.Events[0], ok = readEnvelope(body)
	}
	if !ok {
		reread(r, body)
		return false
	}
	receipts, replayed, err := s.d.Intake.Take(r.Context(), call)
	switch code := fault.CodeOf(err); {
	case err == nil:
		r.Pattern, t.key = rt.pattern, p.Key
		answerReceipts(w, tenant, receipts, replayed, call.Batch)
	case code == fault.Invalid, code == fault.TooLarge, code == fault.NotFound: // nothing was done; the general way says what is wrong
		s.tenants.forget(ref) // it may be another's by now
		reread(r, body)
		return false
	default:
		r.Pattern, t.key = rt.pattern, p.Key
		answerProblem(w, t, problemOf(err))
	}
	return true
}

// quickRoute finds the call in a path that is spelled as plainly as can be.
func (s *server) quickRoute(r *http.Request) (rt *quickRoute, tenant, eventType string) {
	if s.quick == nil || r.Method != http.MethodPost || r.URL.RawPath != "" || r.URL.RawQuery != "" || r.URL.ForceQuery {
		return nil, "", ""
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/v1/tenants/")
	if !ok {
		return nil, "", ""
	}
	tenant, rest, _ = strings.Cut(rest, "/")
	if isDots(tenant) {
		return nil, "", ""
	}
	switch rest {
	case "events":
		return &s.quick.single, tenant, ""
	case "events:batch":
		return &s.quick.batch, tenant, ""
	}
	eventType, ok = strings.CutPrefix(rest, "events/")
	if !ok || eventType == "" || isDots(eventType) || strings.Contains(eventType, "/") {
		return nil, "", ""
	}
	return &s.quick.raw, tenant, eventType
}

// isDots reports whether a segment is one that path.Clean would take away.
func isDots(segment string) bool { return segment == "." || segment == ".." }

// inOrder is checkForm for what is plainly in order.
func (rt *quickRoute) inOrder(r *http.Request) bool {
	if r.ContentLength <= 0 || r.ContentLength > rt.limit || len(r.Header["Content-Encoding"]) > 0 {
		return false
	}
	if len(r.Header[versionHeader]) > 0 {
		return false // a CloudEvent
	}
	if keys := r.Header[keyHeader]; len(keys) > 1 || len(keys) == 1 && isBlank(keys[0]) {
		return false
	}
	types := r.Header["Content-Type"]
	if len(types) != 1 || types[0] == "" {
		return false
	}
	if !rt.takesJSON {
		return !isCEType(types[0])
	}
	return types[0] == jsonType || types[0] == jsonType+"; charset=utf-8"
}

// quickCaller says who calls, if they may. A failure counts once, in the general way.
func (s *server) quickCaller(rt *quickRoute, r *http.Request, t *trace) (p auth.Principal, ok bool) {
	given := r.Header["Authorization"]
	if len(given) != 1 {
		return p, false
	}
	token, bearer := strings.CutPrefix(given[0], "Bearer ")
	if !bearer || strings.ContainsRune(token, ' ') {
		return p, false
	}
	p, err := s.d.Door.Recognise(r.Context(), token, t.from)
	return p, err == nil && rt.may.admits(p)
}

// quickTenant says whom for. What it says is a guess that the transaction confirms: that the tenant is there, and if it is
// named by a uid, which the gate has seen before, that it has this uid still.
func (s *server) quickTenant(p auth.Principal, ref string) (tenant id.ID, uid string, ok bool) {
	if id.LooksLikeID(ref) {
		var err error
		tenant, err = id.Tenant.Parse(ref)
		ok = err == nil
	} else {
		uid = ref
		tenant, ok = s.tenants.get(ref)
	}
	return tenant, uid, ok && p.MaySee(tenant)
}

// wholeBody reads the body, at the pace that the general way wants too.
func (s *server) wholeBody(w http.ResponseWriter, r *http.Request) ([]byte, *Problem) {
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(s.paced(w, r.Body), body)
	var nerr net.Error
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &nerr) && nerr.Timeout():
		return nil, tooSlow()
	}
	return nil, brokenOff(err)
}

// reread makes a body that was read one that can be read.
func reread(r *http.Request, body []byte) {
	r.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(body), r.Body}
}
