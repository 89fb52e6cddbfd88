package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/egresstest"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/internal/pkitest"
)

// visited counts who connects to a port of the loopback, by v4 or v6.
func visited(t *testing.T) (port string, visits *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ = net.SplitHostPort(l.Addr().String())
	listeners := []net.Listener{l}
	if six, err := net.Listen("tcp6", "[::1]:"+port); err == nil { // a host may have no v6
		listeners = append(listeners, six)
	}
	visits = new(atomic.Int64)
	for _, l := range listeners {
		var all sync.WaitGroup
		all.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				visits.Add(1)
				_ = c.Close()
			}
		})
		t.Cleanup(func() { _ = l.Close(); all.Wait() })
	}
	return port, visits
}

// FC-030 and FC-032. Every spelling of an address inside is refused when an endpoint is made and when it is changed; one that is in the database
// all the same, as of a time with other rules, is refused when it is tested and when its delivery is tried again. With a proxy
// it is the same, and the proxy hears nothing of it.
func TestTheInsideIsNotReached(t *testing.T) {
	t.Parallel()
	for name, proxied := range map[string]bool{"direct": false, "through a proxy": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port, visits := visited(t)
			proxy, asked := visited(t)
			over := settings{"DELIVERY_ALLOW_NETWORKS": "", "DELIVERY_MAX_IN_FLIGHT": "64"}
			if proxied {
				over["DELIVERY_PROXY_URL"] = "http://127.0.0.1:" + proxy
			}
			p := serve(t, over)
			tenant := p.tenant()
			inside := egresstest.Inside(port)
			p.refusesURLs(tenant, append(egresstest.Tricks(port), inside...))

			paths := make([]string, len(inside))
			for i := range inside {
				paths[i] = "/v1/tenants/" + tenant + "/endpoints/" + p.endpoint(tenant, "https://example.com/", nil).text("id")
			}
			p.plant(inside)
			for _, path := range paths {
				p.want(http.StatusAccepted, http.MethodPost, path+"/test", object{})
			}
			p.allBlocked(len(inside), 1)
			for _, d := range p.every("/v1/deliveries?limit=250") {
				p.want(http.StatusOK, http.MethodPost, "/v1/deliveries/"+d.text("id")+"/retry", nil)
			}
			p.allBlocked(len(inside), 2)
			if n, m := visits.Load(), asked.Load(); n != 0 || m != 0 {
				t.Errorf("%d visits, and %d to the proxy", n, m)
			}
		})
	}
}

func (p *process) refusesURLs(tenant string, urls []string) {
	p.t.Helper()
	good := "/v1/tenants/" + tenant + "/endpoints/" + p.endpoint(tenant, "https://example.com/", nil).text("id")
	for _, url := range urls {
		for method, path := range map[string]string{http.MethodPost: "/v1/tenants/" + tenant + "/endpoints", http.MethodPatch: good} {
			refusal := p.want(http.StatusUnprocessableEntity, method, path, object{"url": url})
			if at := refusal.list("errors"); len(at) != 1 || at[0].text("pointer") != "/url" {
				p.t.Errorf("%s %q: %s", method, url, sprint(refusal))
			}
		}
	}
	p.want(http.StatusNoContent, http.MethodDelete, good, nil)
}

// plant writes URLs into the endpoints that are there, past all rules.
func (p *process) plant(urls []string) {
	p.t.Helper()
	cfg, err := pg.ParseURL(pgtest.URL(p.t))
	if err != nil {
		p.t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(p.t.Context(), cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close(p.t.Context())
	tag, err := conn.Exec(p.t.Context(), `
UPDATE endpoints e SET url = x.url
  FROM (SELECT shard, id, row_number() OVER (ORDER BY id) AS n FROM endpoints WHERE deleted_at IS NULL) o,
       unnest($1::text[]) WITH ORDINALITY AS x(url, n)
 WHERE o.n = x.n AND e.shard = o.shard AND e.id = o.id`, urls)
	if err != nil || tag.RowsAffected() != int64(len(urls)) {
		p.t.Fatal(tag, err)
	}
}

// every gives all of a list, page by page: a page has what was found in some 30 ms, which on a busy machine may be little.
func (p *process) every(path string) (all []object) {
	p.t.Helper()
	for next := path; ; {
		page := p.get(next)
		all = append(all, page.list("data")...)
		cursor, more := page["next_cursor"].(string)
		if !more {
			return all
		}
		next = path + "&cursor=" + url.QueryEscape(cursor)
	}
}

// allBlocked waits until all deliveries have been blocked as often as that.
func (p *process) allBlocked(want, attempts int) {
	p.t.Helper()
	eventually(p.t, func() string {
		all := p.every("/v1/deliveries?state=failed&outcome=blocked&limit=250")
		done := 0
		for _, d := range all {
			if d.number("attempts") == attempts {
				done++
			}
		}
		if done != want {
			return fmt.Sprintf("%d of %d are blocked, %d with %d attempts", len(all), want, done, attempts)
		}
		return ""
	})
	for _, d := range p.every("/v1/deliveries?limit=250") {
		for _, a := range p.attempts(d) {
			if a.text("outcome") != "blocked" || !strings.Contains(a.text("error"), "not allowed") && !strings.Contains(a.text("error"), "unusual spelling") {
				p.t.Errorf("%s: %s", a.text("url"), sprint(a))
			}
		}
	}
}

// An endpoint with authorities and a certificate of its own: the receiver sees who comes, and a key that is changed or taken
// away is in use at once.
func TestAnEndpointsOwnTLS(t *testing.T) {
	t.Parallel()
	ca := pkitest.NewAuthority(t, "a private authority")
	came := make(chan string, 10)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		came <- r.TLS.PeerCertificates[0].Subject.CommonName
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = ca.Server(t, pkitest.Wanted{Hosts: []string{"127.0.0.1"}})
	s.TLS.ClientAuth, s.TLS.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool()
	s.StartTLS()
	t.Cleanup(s.Close)

	p := serve(t, settings{"DELIVERY_RETRY_SCHEDULE": "1h"})
	tenant := p.tenant()
	pair := func(name string) object {
		cert, key := ca.Issue(t, pkitest.Wanted{Name: name})
		return object{"certificate": cert, "key": key}
	}
	own := pair("first")
	own["ca"] = ca.PEM()
	path := "/v1/tenants/" + tenant + "/endpoints/" + p.endpoint(tenant, s.URL, object{"tls": own}).text("id")
	for _, step := range []struct {
		change object // of tls; nil: none
		want   string // who comes, or what is said
	}{
		{nil, "first"},
		{pair("second"), "second"},
		{object{"certificate": nil}, "TLS: the receiver wants a client certificate (certificate required); it goes into tls.certificate and tls.key"},
		{pair("third"), "third"},
		{object{"ca": nil}, "TLS: the certificate is signed by an authority that is not known, or the receiver does not send the certificates between; an authority of your own goes into tls.ca"},
	} {
		if step.change != nil {
			p.want(http.StatusOK, http.MethodPatch, path, object{"tls": step.change})
		}
		event := p.send(tenant, "a", object{})
		if strings.HasPrefix(step.want, "TLS: ") {
			var last object
			eventually(t, func() string {
				for _, d := range p.deliveries(event) {
					for _, last = range p.attempts(d) {
						return ""
					}
				}
				return "no attempt yet"
			})
			if last.text("outcome") != "tls_error" || last.text("error") != step.want || last.text("error_detail") == "" {
				t.Errorf("%s", sprint(last))
			}
			continue
		}
		p.await(event, "succeeded")
		if name := <-came; name != step.want {
			t.Errorf("%s came, want %s", name, step.want)
		}
	}
	if body := string(p.do(http.MethodGet, path, "", nil).body) + p.logged(); strings.Contains(body, "PRIVATE KEY") {
		t.Error("a key shows")
	}
}
