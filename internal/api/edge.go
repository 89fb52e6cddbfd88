package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/traceparent"
)

// trace is what a request's log line is made of. It lies in the request's context and belongs to its one goroutine.
type trace struct {
	id   string     // X-Request-Id, the caller's or ours
	from netip.Addr // the client's address
	key  id.ID      // the API key's
	err  error      // why the answer is an error

	context traceparent.Context // where it belongs; zero: nowhere
	span    RequestSpan         // nil: it is not traced
}

type traceKey struct{}

func traceOf(ctx context.Context) *trace {
	t, _ := ctx.Value(traceKey{}).(*trace)
	return t
}

// ServeHTTP is the edge: everything that holds for all answers, whoever gives them. One log line each, without bodies,
// query strings or credentials.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	t := &trace{id: requestID(r), from: clientAddr(r, s.d.TrustedProxies)}
	out := &answer{ResponseWriter: w, pace: s.d.Bodies}
	if r.ContentLength != 0 {
		out.leftover = s.d.Bodies.Leftover
	}
	setHeaders(out.Header(), r, t)
	r = s.traced(r, t)
	defer func() {
		thrown := recover()
		if thrown != nil {
			t.err = s.recovered(out, r, thrown)
		}
		took := time.Since(start)
		s.count(r, out.status, took)
		s.log(r, out, t, took)
		t.endSpan(r, out)
		if err, ok := thrown.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(thrown) // net/http breaks the connection off
		}
	}()
	if s.enqueueQuickly(out, r, t) {
		return
	}
	r = r.WithContext(auth.WithClient(context.WithValue(r.Context(), traceKey{}, t), t.from))
	if r.ContentLength != 0 {
		r.Body = s.paced(out, r.Body)
	}
	s.dispatch(out, r)
}

// Values of headers that answers share: Set and Add put another slice in the place of one of these, and nothing else
// changes a header.
var (
	nosniff    = []string{"nosniff"}
	noReferrer = []string{"no-referrer"}
	noScripts  = []string{"default-src 'none'; frame-ancestors 'none'; sandbox"}
	noStore    = []string{"no-store"}
)

func setHeaders(h http.Header, r *http.Request, t *trace) {
	h["X-Request-Id"] = []string{t.id}
	h["X-Content-Type-Options"], h["Referrer-Policy"], h["Content-Security-Policy"] = nosniff, noReferrer, noScripts
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		h["Cache-Control"] = noStore
	}
}

// requestID takes the caller's id if it is one that a log can hold as it is.
func requestID(r *http.Request) string {
	const most = 128
	given := r.Header.Get("X-Request-Id")
	ok := given != "" && len(given) <= most && !strings.ContainsFunc(given, func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-_.:+/=", c))
	})
	if ok {
		return given
	}
	if fresh, err := uuid.NewV7(); err == nil {
		return fresh.String()
	}
	return "unknown" // no randomness to be had
}

// dispatch lets the mux answer what it knows, and says by problems what it does not.
func (s *server) dispatch(w http.ResponseWriter, r *http.Request) {
	// The mux would redirect /v1//tenants to /v1/tenants; with a body that leads nowhere.
	raw := r.URL.EscapedPath()
	if clean := path.Clean(raw); clean != raw && clean+"/" != raw {
		writeProblem(w, r, newProblem(fault.NotFound, "there is nothing at this path"))
		return
	}
	handler, pattern := s.mux.Handler(r)
	if pattern != "" {
		s.mux.ServeHTTP(w, r) // not handler: only this way the request learns its path values
		return
	}
	var probe probe
	handler.ServeHTTP(&probe, r)
	if allow := probe.header.Get("Allow"); probe.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", allow)
		writeProblem(w, r, newProblem(fault.MethodNotAllowed, fmt.Sprintf("%s is not to be had here, only %s", r.Method, allow)))
		return
	}
	writeProblem(w, r, newProblem(fault.NotFound, "there is nothing at this path"))
}

// writeProblem answers where huma does not.
func writeProblem(w http.ResponseWriter, r *http.Request, p *Problem) {
	answerProblem(w, traceOf(r.Context()), p)
}

// answerProblem answers with a problem, and notes it in the request's trace, if there is one.
func answerProblem(w http.ResponseWriter, t *trace, p *Problem) {
	if t != nil {
		t.err = p
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(p.Status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // as huma writes its own
	_ = enc.Encode(p)        // whoever asked has gone
}

// recovered turns a panic into an answer, if there is none yet, and into an error for the log.
func (*server) recovered(w *answer, r *http.Request, thrown any) error {
	if err, ok := thrown.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return err
	}
	err := fmt.Errorf("panic: %v\n%s", thrown, debug.Stack())
	if w.status == 0 {
		writeProblem(w, r, problemOf(err))
	}
	return err
}

// log writes the request's line: what concerns us as an error, what is only looked at, by machines or on pages, as debug.
func (s *server) log(r *http.Request, w *answer, t *trace, took time.Duration) {
	level := zerolog.InfoLevel
	gone := errors.Is(r.Context().Err(), context.Canceled)
	switch {
	case w.status >= http.StatusInternalServerError && !gone:
		level = zerolog.ErrorLevel
	case !strings.HasPrefix(r.URL.Path, "/v1/") && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		level = zerolog.DebugLevel
	}
	line := s.logger.WithLevel(level)
	if !line.Enabled() {
		return
	}
	line = line.
		Str("request_id", t.id).Str("method", r.Method).Str("route", r.Pattern).Int("status", w.status).
		Dur("duration_ms", took).Int64("bytes", w.bytes)
	if !t.key.IsZero() {
		line = line.Str("key_id", id.Key.Format(t.key))
	}
	if ids := s.actedOn(r); ids != nil {
		line = line.Strs("ids", ids)
	}
	if t.err != nil {
		line = line.Str("error", causeOf(t.err))
	}
	switch w.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		line = line.Stringer("from", t.from)
	}
	if t.context.Valid() {
		line = line.Str("trace", t.context.TraceID())
	}
	if gone {
		line = line.Bool("client_gone", true)
	}
	line.Msg("http.request")
}

// actedOn gives the ids in the path of somebody's act on a thing, and nothing else of the path: what strangers put there is not to be in the
// log. Events that are enqueued are too many, and are known by their own ids.
func (s *server) actedOn(r *http.Request) (ids []string) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || s.enqueues[r.Pattern] {
		return nil
	}
	for part := range strings.SplitSeq(r.URL.Path, "/") {
		if _, _, err := id.ParseAny(part); err == nil {
			ids = append(ids, part)
		}
	}
	return ids
}

// count has the request counted under its route: a pattern of the mux, of which there are as many as there are calls.
func (s *server) count(r *http.Request, status int, took time.Duration) {
	if s.d.Requests == nil {
		return
	}
	s.d.Requests.Request(r.Pattern, status)
	if s.enqueues[r.Pattern] {
		s.d.Requests.Enqueued(took)
	}
}

// causeOf says what is behind a problem. A caller's mistake is told by its detail alone: causes may repeat what was sent.
func causeOf(err error) string {
	var p *Problem
	if errors.As(err, &p) && (p.Status < http.StatusInternalServerError || p.cause == nil) {
		return p.Detail
	}
	if p != nil {
		return p.cause.Error()
	}
	return err.Error()
}

// probe hears what the mux would answer.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header {
	if p.header == nil {
		p.header = http.Header{}
	}
	return p.header
}
func (p *probe) WriteHeader(status int)      { p.status = status }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }

// requestOf is the id of the request that ctx belongs to.
func requestOf(ctx context.Context) string {
	if t := traceOf(ctx); t != nil {
		return t.id
	}
	return ""
}
