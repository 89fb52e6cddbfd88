package client_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/apitest"
)

// Whoever answers need not be a Postrider.
func TestStrangeAnswers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   string // a part of the error
	}{
		"another page": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>hello") }, "is this its URL?"},
		"no receipt":   {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }, "is this its URL?"},
		"without end": {func(w http.ResponseWriter, _ *http.Request) {
			for range 5 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		}, "the answer is over"},
		"a problem without an end": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusBadRequest)
			for range 5 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		}, "status 400"},
		"a proxy's page": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "<html>no way")
		}, "status 403"},
	} {
		_, err := connect(t, answering(t, tc.answer)).Enqueue(t.Context(), paid)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A redirect would take the key and the payload to somebody else.
func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	followed := false
	other := answering(t, func(http.ResponseWriter, *http.Request) { followed = true })
	for _, status := range []int{301, 302, 303, 307, 308} {
		url := answering(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, status) })
		_, err := connect(t, url).Enqueue(t.Context(), paid)
		if got := refusal(t, err); got.Status != status || followed || !strings.Contains(got.Detail, "redirects") {
			t.Errorf("%d: %v", status, err)
		}
	}
}

func TestHeadOfTheRequest(t *testing.T) {
	t.Parallel()
	var got http.Header
	var path string
	url := answering(t, func(w http.ResponseWriter, r *http.Request) {
		got, path = r.Header.Clone(), r.URL.RequestURI()
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, receipt)
	})
	for _, base := range []string{url, url + "/", url + "/v1", url + "/v1/"} {
		if _, err := connect(t, base, client.WithUserAgent("shop/1.2")).Enqueue(t.Context(), paid); err != nil {
			t.Fatal(err)
		}
		if path != "/v1/tenants/demo/events/order.paid" {
			t.Errorf("%s: %s", base, path)
		}
	}
	if got.Get("User-Agent") != "shop/1.2" || got.Get("Authorization") != "Bearer "+apitest.AdminKey || got.Get("Content-Type") != "application/json" {
		t.Errorf("%v", got)
	}
}

// Connections are kept, also after refusals.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	var conns atomic.Int32
	calls := 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls%3 == 0 {
			http.Error(w, strings.Repeat("no", 1000), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, receipt)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	c := connect(t, server.URL)
	for range 12 {
		_, _ = c.Enqueue(t.Context(), paid)
	}
	if calls != 12 || conns.Load() != 1 {
		t.Errorf("%d calls over %d connections", calls, conns.Load())
	}
}
