package web

import (
	"net/http"
	"net/url"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
)

// formLimit bounds the body of a form, in bytes: the largest thing in one is a sample payload.
const formLimit = 2 << 20

// AtLeast lets in whoever of the staff has this role or a higher one.
func AtLeast(role auth.Role) Access {
	return func(s auth.Session) error {
		if s.Role.AtLeast(role) {
			return nil
		}
		return fault.New(fault.Forbidden, "this needs the role %s; yours is %s", role, s.Role)
	}
}

// Visitor lets in everybody with a session of the site.
func Visitor(auth.Session) error { return nil }

// Writer lets in whoever may change things, which a session that only reads may not.
func Writer(s auth.Session) error {
	if s.ReadOnly {
		return fault.New(fault.Forbidden, "this link lets you read only; ask for one that may change things")
	}
	return nil
}

// gate stands before a route: the session, then whether it may, then the act. What the act does is the session's doing.
func (s *Site) gate(rt Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := s.visit(w, r)
		if err := s.enter(v, rt); err != nil {
			v.showFault(err)
		}
	})
}

func (s *Site) visit(w http.ResponseWriter, r *http.Request) *Visit {
	return &Visit{W: w, R: r, ctx: r.Context(), site: s, Now: s.o.Now()}
}

func (s *Site) enter(v *Visit, rt Route) error {
	if rt.blind {
		return rt.Act(v)
	}
	session, err := s.resume(v.R)
	switch {
	case err == nil:
		v.Session, v.signedIn = session, true
	case rt.May != nil && fault.Is(err, fault.Unauthenticated):
		if live(v.R) {
			return v.overLive()
		}
		return s.o.Stranger(v)
	case rt.May != nil:
		return err
	}
	if rt.May != nil {
		if err := rt.May(session); err != nil {
			return err
		}
	}
	if v.signedIn {
		v.ctx = audit.With(v.ctx, auth.ActorOf(v.ctx, session.Principal))
	}
	if err := checkQuery(v.R.URL.RawQuery); err != nil {
		return err
	}
	v.R.Body = http.MaxBytesReader(v.W, v.R.Body, formLimit)
	return rt.Act(v)
}

// overLive answers a page that looks again by itself after its session has ended. It would take the page for strangers for the
// part that it looks for, and show nothing in its place. What was written into a form stays until it is sent.
func (v *Visit) overLive() error {
	if v.R.Method == http.MethodGet {
		v.W.Header().Set("HX-Refresh", "true")
	}
	v.W.WriteHeader(http.StatusUnauthorized)
	return nil
}

// checkQuery refuses an address that cannot be read as a whole. What could not be read would be left out, and a list with half
// of its filter is another one, which somebody may be about to retry.
func checkQuery(raw string) error {
	if _, err := url.ParseQuery(raw); err != nil {
		return fault.Wrap(fault.Malformed, err, "the query of this address cannot be read")
	}
	return nil
}

// resume finds the session of the request's cookie.
func (s *Site) resume(r *http.Request) (auth.Session, error) {
	cookie, err := r.Cookie(s.cookieName())
	if err != nil {
		return auth.Session{}, fault.New(fault.Unauthenticated, "there is no session")
	}
	if live(r) && r.Method == http.MethodGet {
		return s.o.Sessions.Watch(r.Context(), s.o.Kind, cookie.Value)
	}
	return s.o.Sessions.Resume(r.Context(), s.o.Kind, cookie.Value)
}

// live says that a page's script asks, for a part of the page: by itself if it is a GET, else for what was written into a form.
func live(r *http.Request) bool { return r.Header.Get("HX-Request") == "true" }

// deny answers a request that another origin made a browser send.
func (s *Site) deny() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := s.visit(w, r)
		v.showFault(fault.New(fault.Forbidden, "this came from a page of another origin, and nothing was done; open this site and do it there"))
	})
}

func nowhere(*Visit) error { return fault.New(fault.NotFound, "there is no such page") }
