package api_test

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/egresstest"
	"github.com/postrider/postrider/internal/pkitest"
)

// dispatch sends what is due through a client until the test ends.
func (w *world) dispatch(client *egress.Client) {
	w.t.Helper()
	d := dispatcher.New(dispatcher.Config{
		RetrySchedule: []time.Duration{time.Hour}, Timeout: 10 * time.Second, Lease: time.Minute, MaxInFlight: 50,
		MaxInFlightPerEndpoint: 10, ResponseBodyLimit: 1 << 10, AlertAfterFailures: 1, UserAgent: "Postrider/test", Grace: time.Second,
	}, dispatcher.Deps{
		DB: w.db, IDs: w.ids, Now: w.clock.Now, Doer: client, Store: w.subs, Metrics: dispatcher.Unmeasured(), Log: zerolog.New(w.log), WallTime: time.Now,
		Desk: dispatcher.NewDesk(dispatcher.DeskDeps{DB: w.db, Now: w.clock.Now, Wake: func(int16) {}}),
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		client.CloseIdleConnections()
	})
}

// attempted waits until an endpoint has an attempt, and gives it as a key sees it.
func (w *world) attempted(endpoint, key string) tree {
	w.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		for _, d := range w.must(200, request{method: "GET", path: "/v1/deliveries?endpoint=" + endpoint, key: key}).list("data") {
			path := "/v1/deliveries/" + d.text("id") + "/attempts"
			if all := w.must(200, request{method: "GET", path: path, key: key}).list("data"); len(all) > 0 {
				return all[0]
			}
		}
		<-tick.C
	}
	w.t.Fatalf("no attempt to %s", endpoint)
	return nil
}

// What an outsider reads of a failure names the class of an address and nothing of how the network around us is laid out: not
// in attempts, endpoints, deliveries, events or alerts. Staff read where it went, or would have gone.
func TestATenantSeesNoInternalAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant("acme")
	closed := freePort(t)
	ca := pkitest.NewAuthority(t, "a private authority")
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.TLS = ca.Server(t, pkitest.Wanted{Hosts: []string{"10.20.30.43", "other.test"}})
	secure.StartTLS()
	t.Cleanup(secure.Close)
	_, securePort, _ := net.SplitHostPort(secure.Listener.Addr().String())
	resolver := egresstest.Resolver(t, func(name string) ([]netip.Addr, dnsmessage.RCode, bool) {
		if name == "broken.test" {
			return nil, dnsmessage.RCodeServerFailure, false
		}
		return egresstest.Fixed(map[string]string{
			"inside.test": "10.20.30.40", "six.test": "fd00:1234::77", "metadata.test": "169.254.169.254", "shared.test": "100.64.30.41",
			"both.test": "127.0.0.1 10.20.30.42", "here.test": "127.0.0.1",
		})(name)
	})
	policy := egress.Policy{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	w.dispatch(egress.New(egress.Config{Policy: policy, Resolver: resolver, TLS: &tls.Config{RootCAs: ca.Pool()}}))

	cases := []struct {
		url, outcome, error, address string // what everybody sees
		detail                       string // and what staff alone do
	}{
		{"https://inside.test/", "blocked", "the address is not allowed: private", "private", "dial 10.20.30.40:443"},
		{"https://alias.inside.test/", "blocked", "the address is not allowed: private", "private", "dial 10.20.30.40:443"},
		{"https://six.test/", "blocked", "the address is not allowed: private", "private", "dial [fd00:1234::77]:443"},
		{"https://metadata.test/", "blocked", "the address is not allowed: metadata", "metadata", "dial 169.254.169.254:443"},
		{"https://shared.test/", "blocked", "the address is not allowed: shared", "shared", "dial 100.64.30.41:443"},
		{"https://both.test:" + closed + "/", "blocked", "the address is not allowed: private", "private", "dial 10.20.30.42:" + closed},
		{"https://broken.test/", "dns_error", "the host's address could not be looked up", "", ".test on "},
		{"https://gone.test/", "dns_error", "no address was found for gone.test", "", ".test on "},
		{"https://here.test:" + closed + "/", "connect_error", "connection refused: nothing listens there", "loopback", "dial tcp 127.0.0.1:" + closed},
		{"https://here.test:" + securePort + "/", "tls_error", "TLS: the certificate is for other.test and 1 more, and not for here.test", "loopback", "TLS handshake: "},
	}
	var endpoints []string
	for _, c := range cases {
		endpoints = append(endpoints, w.must(201, request{
			method: "POST", path: "/v1/tenants/acme/endpoints", body: `{"url":"` + c.url + `","retry_schedule":["1h"]}`,
		}).text("id"))
	}
	event := w.event("acme", "order.paid")
	bound := w.apiKey(tenant, string(auth.EndpointsWrite), string(auth.DeliveriesRead))
	for i, c := range cases {
		own, all := w.attempted(endpoints[i], bound), w.attempted(endpoints[i], "")
		for _, seen := range []tree{own, all} {
			if seen.text("outcome") != c.outcome || seen.text("error") != c.error {
				t.Errorf("%s: %s: %s", c.url, seen.text("outcome"), seen.text("error"))
			}
		}
		if own.text("address") != c.address || own["error_detail"] != nil {
			t.Errorf("%s: a tenant sees %v and %v", c.url, own["address"], own["error_detail"])
		}
		if !strings.Contains(all.text("error_detail"), c.detail) || (c.address == "") != (all["address"] == nil) {
			t.Errorf("%s: staff see %v and %v", c.url, all["address"], all["error_detail"])
		}
	}
	w.searchAs(bound, tenant, event, endpoints)
}

// searchAs looks through all that a bound key can read for what it may not know.
func (w *world) searchAs(key, tenant, event string, endpoints []string) {
	w.t.Helper()
	inside := []string{"lookup ", "10.20.30.", "fd00:", "169.254.", "100.64.", "127.0.0."}
	paths := []string{
		"/v1/tenants/" + tenant, "/v1/tenants/acme/endpoints?limit=250", "/v1/tenants/acme/events", "/v1/tenants/acme/events/" + event,
		"/v1/deliveries?limit=250", "/v1/alerts?limit=250",
	}
	for _, endpoint := range endpoints {
		paths = append(paths, "/v1/tenants/acme/endpoints/"+endpoint)
	}
	for _, list := range []string{"/v1/deliveries", "/v1/alerts"} {
		found := w.must(200, request{method: "GET", path: list + "?limit=250", key: key}).list("data")
		if len(found) != len(endpoints) {
			w.t.Errorf("%s has %d", list, len(found))
		}
		for _, one := range found {
			paths = append(paths, list+"/"+one.text("id"))
			if list == "/v1/deliveries" {
				paths = append(paths, list+"/"+one.text("id")+"/attempts")
			}
		}
	}
	said := 0
	for _, path := range paths {
		body := string(w.do(request{method: "GET", path: path, key: key}).body)
		said += strings.Count(body, "not allowed: private")
		for _, address := range inside {
			if at := strings.Index(body, address); at >= 0 {
				w.t.Errorf("%s: …%s…", path, body[max(0, at-80):min(len(body), at+40)])
			}
		}
	}
	if said < 12 { // of four endpoints: last_error, alert and attempt, and each in its list
		w.t.Errorf("the class is said %d times", said)
	}
}

// With a proxy the class is all there is as well, and of the proxy nothing.
func TestATenantSeesNothingOfTheProxy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant("acme")
	resolver := egresstest.Resolver(t, egresstest.Fixed(map[string]string{"inside.test": "10.20.30.40", "outside.test": "93.184.216.34"}))
	proxy := &url.URL{Scheme: "http", Host: "127.0.0.1:" + freePort(t), User: url.UserPassword("u", "CANARY")}
	w.dispatch(egress.New(egress.Config{Resolver: resolver, ProxyURL: proxy}))
	var endpoints []string
	for _, host := range []string{"inside.test", "outside.test"} {
		endpoints = append(endpoints, w.must(201, request{method: "POST", path: "/v1/tenants/acme/endpoints", body: `{"url":"https://` + host + `/"}`}).text("id"))
	}
	event := w.event("acme", "order.paid")
	bound := w.apiKey(tenant, string(auth.EndpointsWrite), string(auth.DeliveriesRead))
	for i, want := range []struct{ error, detail string }{
		{"the address is not allowed: private", "dial 10.20.30.40:443"},
		{"no connection could be made through the proxy", proxy.Host},
	} {
		own, all := w.attempted(endpoints[i], bound), w.attempted(endpoints[i], "")
		if own.text("error") != want.error || own["error_detail"] != nil || !strings.Contains(all.text("error_detail"), want.detail) {
			t.Errorf("%v\n%v", own, all)
		}
		if strings.Contains(all.text("error_detail"), "CANARY") {
			t.Errorf("the proxy's password shows: %v", all)
		}
	}
	for _, path := range []string{"/v1/tenants/acme/endpoints", "/v1/deliveries", "/v1/alerts", "/v1/tenants/acme/events/" + event} {
		if body := string(w.do(request{method: "GET", path: path, key: bound}).body); strings.Contains(body, "127.0.0.1") || strings.Contains(body, "10.20.30.") {
			t.Errorf("%s: %s", path, body)
		}
	}
}

// freePort gives a port of 127.0.0.1 where nothing listens.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	return port
}
