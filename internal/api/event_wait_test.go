package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// wrap puts a server in the place of the world's, one that is not started and has something before its handler.
func (w *world) wrap(before func(http.ResponseWriter, *http.Request, http.Handler)) {
	w.t.Helper()
	handler := w.http.Config.Handler
	w.http.Close()
	w.http = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { before(rw, r, handler) }))
	w.t.Cleanup(w.http.Close)
}

func TestEventSaysWhetherToLookAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	done := "/v1/tenants/acme/events/" + w.event("acme", "nobody.wants") // there is no endpoint yet
	w.endpoint("acme", "")
	open := "/v1/tenants/acme/events/" + w.event("acme", "order.paid")
	for path, want := range map[string][2]string{
		done: {"succeeded", ""}, done + "?wait=30s": {"succeeded", ""}, open: {"queued", "1"}, open + "?wait=0s": {"queued", "1"}, open + "?wait=60ms": {"queued", "1"},
	} {
		res := w.do(request{method: "GET", path: path})
		if got := res.tree(t); res.status != http.StatusOK || got.text("status") != want[0] || res.header.Get("Retry-After") != want[1] {
			t.Errorf("%s: %d %s, Retry-After %q", path, res.status, got.text("status"), res.header.Get("Retry-After"))
		}
	}
	for _, wait := range []string{"31s", "-1s", "20", "soon", "1d"} {
		if p := w.refused(http.StatusUnprocessableEntity, request{method: "GET", path: open + "?wait=" + wait}); !p.pointsTo("?wait") {
			t.Errorf("%s: %+v", wait, p)
		}
	}
	w.refused(http.StatusNotFound, request{method: "GET", path: "/v1/tenants/acme/events/nobody?wait=30s"})
}

// Who waits hears of the end as soon as there is one.
func TestEventIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	w.endpoint("acme", "")
	path := "/v1/tenants/acme/events/" + w.event("acme", "order.paid")
	answered := make(chan response)
	go func() { answered <- w.do(request{method: "GET", path: path + "?wait=30s"}) }()
	w.must(http.StatusOK, request{method: "POST", path: path + "/cancel"})
	got := <-answered
	if event := got.tree(t); event.text("status") != "cancelled" || got.header.Get("Retry-After") != "" || len(event.list("deliveries")) != 1 {
		t.Errorf("%s", got.body)
	}
}

// A stop waits for requests that are being answered. Those that wait for an event are answered then.
func TestWaitDoesNotHoldUpAStop(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 1)
	w := newWorld(t)
	w.tenant("acme")
	w.endpoint("acme", "")
	path := "/v1/tenants/acme/events/" + w.event("acme", "order.paid")
	w.wrap(func(rw http.ResponseWriter, r *http.Request, handler http.Handler) {
		arrived <- struct{}{}
		handler.ServeHTTP(rw, r)
	})
	w.http.Config.RegisterOnShutdown(func() { close(w.stopping) })
	w.http.Start()
	answered := make(chan response)
	go func() { answered <- w.do(request{method: "GET", path: path + "?wait=30s"}) }()
	<-arrived
	soon, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	if err := w.http.Config.Shutdown(soon); err != nil {
		t.Errorf("the stop is held up: %v", err)
	}
	if got := <-answered; got.status != http.StatusOK || got.header.Get("Retry-After") != "1" || got.tree(t).text("status") != "queued" {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// Of a client that has gone nothing stays behind: the server's close waits for it.
func TestWaitEndsWithItsClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	w.endpoint("acme", "")
	path := "/v1/tenants/acme/events/" + w.event("acme", "order.paid")
	idle := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	w.wrap(func(rw http.ResponseWriter, r *http.Request, handler http.Handler) {
		cancel()
		handler.ServeHTTP(rw, r)
		if r.Context().Err() == nil {
			t.Error("it was answered after all")
		}
		close(idle)
	})
	w.http.Start()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.http.URL+path+"?wait=30s", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+adminKey)
	res, err := w.http.Client().Do(req)
	if err == nil {
		res.Body.Close()
		t.Errorf("%v", res.Status)
	}
	<-idle
}
