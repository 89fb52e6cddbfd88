//go:build browser

package e2e

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
)

// got is a request as the checks read it.
type got struct {
	Delivery, Event, Attempt, Body string
	Verified                       string // "": the signature is good; else why not
}

// serveControl starts the server by which the checks ask what a receiver got, and have it answer otherwise. It also serves
// pages of another origin, which try to frame ours and to post to them. It gives its URL, once as the same site and once as
// another one.
func (s *stage) serveControl() (same, other string) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /receivers/{name}", func(w http.ResponseWriter, r *http.Request) {
		e := s.endpoints[r.PathValue("name")]
		if e.receiver == nil {
			http.NotFound(w, r)
			return
		}
		all := []got{}
		for _, req := range e.receiver.requests() {
			g := got{Delivery: req.get("postrider-delivery-id"), Event: req.get("webhook-id"), Attempt: req.get("postrider-attempt"), Body: string(req.body)}
			if err := req.verify(e.Scheme, e.Secret); err != nil {
				g.Verified = err.Error()
			}
			all = append(all, g)
		}
		_ = json.NewEncoder(w).Encode(all)
	})
	mux.HandleFunc("POST /receivers/{name}/{status}", func(w http.ResponseWriter, r *http.Request) {
		status, err := strconv.ParseInt(r.PathValue("status"), 10, 32)
		if e := s.endpoints[r.PathValue("name")]; err == nil && e.status != nil {
			e.status.Store(int32(status))
			return
		}
		http.NotFound(w, r)
	})
	mux.HandleFunc("GET /frame", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `<!doctype html><title>frame</title><iframe name="framed" width="800" height="600" src="%s"></iframe>`, html.EscapeString(r.FormValue("src")))
	})
	mux.HandleFunc("GET /forge", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `<!doctype html><title>forge</title><form method="post" action="%s"><button>Win a prize</button></form>`, html.EscapeString(r.FormValue("action")))
	})
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	server := httptest.NewServer(mux)
	s.t.Cleanup(server.Close)
	return server.URL, strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
}
