//go:build browser

package e2e

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/egresstest"
	"github.com/postrider/postrider/internal/pkitest"
	"github.com/postrider/postrider/signer"
)

// stage is a server whose every field holds something hostile, the receivers of its deliveries, and what the checks have to
// know of them.
type stage struct {
	t         *testing.T
	p         *process
	keys      map[string]string // by role
	tenants   map[string]string // ids, by our own names for them
	endpoints map[string]staged
	events    map[string]string // ids, by the name of the endpoint that gets them
	sent      map[string]string // ids of their deliveries
	control   string            // URL of the server that tells what receivers got, and has them answer otherwise
	foreign   string            // URL of the same server under the name of another site
}

// staged is an endpoint with its receiver, if that is one of ours.
type staged struct {
	Tenant, ID, URL, Secret string
	Scheme                  signer.Scheme
	receiver                *receiver
	status                  *atomic.Int32 // what a receiver of a calm kind answers
}

// The kinds of hostile receivers' endpoints whose deliveries wait for a next try, and do not fail for good, on the stage.
var waiting = []string{"slow-down", "mute", "refused", "expired"}

func setStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{
		t: t, keys: map[string]string{"admin": adminKey}, tenants: map[string]string{}, endpoints: map[string]staged{}, events: map[string]string{}, sent: map[string]string{},
	}
	s.control, s.foreign = s.serveControl()
	s.p = serve(t, settings{"ALERTS_AFTER_FAILURES": "3", "PORTAL_FRAME_ANCESTORS": s.control, "PORTAL_NAME": "Hooks " + hostile("name of the portal")["image"]})
	s.makeKeys()
	s.makeTenants()
	s.makeHostileEndpoints()
	s.makeCalmEndpoints()
	s.makeEventTypes()
	s.makeOddEvents()
	s.settle()
	return s
}

// told is what browser/run.mjs learns.
func (s *stage) told() map[string]any {
	return map[string]any{
		"base": s.p.url, "control": s.control, "foreign": s.foreign, "keys": s.keys, "tenants": s.tenants,
		"endpoints": s.endpoints, "events": s.events, "deliveries": s.sent, "hostile": hostile("told"),
	}
}

// makeKeys makes a key for each role; their names show on every page.
func (s *stage) makeKeys() {
	texts := hostile("name of a key")
	for role, scopes := range map[string][]string{"viewer": {"deliveries:read"}, "support": {"deliveries:read", "deliveries:write", "endpoints:write", "events:write"}} {
		s.keys[role] = s.p.want(http.StatusCreated, http.MethodPost, "/v1/api-keys", object{"name": role + texts["script"], "scopes": scopes}).text("key")
	}
	for _, text := range texts {
		s.p.want(http.StatusCreated, http.MethodPost, "/v1/api-keys", object{"name": text, "scopes": []string{"events:write"}})
	}
}

func (s *stage) makeTenants() {
	for name, text := range hostile("name of a tenant") {
		s.tenants[name] = s.p.want(http.StatusCreated, http.MethodPost, "/v1/tenants", object{
			"name": text, "metadata": hostile("metadata of a tenant"),
		}).text("id")
	}
	for _, name := range []string{"calm", "many", "bulk", "signed", "mend", "act", "stuck", "filtering", "portal"} {
		s.tenants[name] = s.p.want(http.StatusCreated, http.MethodPost, "/v1/tenants", object{"uid": name, "name": "Tenant " + name}).text("id")
	}
}

// makeHostileEndpoints gives the first hostile tenant an endpoint for each receiver, and each of them an event.
func (s *stage) makeHostileEndpoints() {
	texts := hostile("description of an endpoint")
	names := slices.Sorted(maps.Keys(texts))
	at := 0
	add := func(name, address string, more object) {
		text := texts[names[at%len(names)]]
		at++
		body := object{
			"description": text, "metadata": hostile("metadata of an endpoint"), "headers": object{"X-Hostile": "<script>" + ran("static header") + "</script>"},
		}
		maps.Copy(body, more)
		e := s.p.endpoint(s.tenants["script"], address, body)
		s.endpoints[name] = staged{Tenant: s.tenants["script"], ID: e.text("id"), URL: address, Secret: e.object("signature").text("secret")}
		s.events[name] = s.p.want(http.StatusAccepted, http.MethodPost, "/v1/tenants/"+s.tenants["script"]+"/events", object{
			"type": "hostile." + name, "payload": hostile("payload"), "endpoint_ids": []string{e.text("id")}, "metadata": hostile("metadata of an event"),
			"group_key": text,
		}).text("id")
	}
	for name, play := range hostileAnswers() {
		r := receive(s.t, play)
		add(name, r.url("/"+url.PathEscape("<script>"+ran("path")+"</script>")+"?token=canary-of-a-query"), nil)
		e := s.endpoints[name]
		e.receiver = r
		s.endpoints[name] = e
	}
	for name := range texts { // every tenant has a delivery
		if name != "script" {
			e := s.p.endpoint(s.tenants[name], "http://"+closedPort(s.t)+"/", object{"description": texts[name], "retry_schedule": []string{"1h"}})
			s.events["tenant-"+name] = s.p.want(http.StatusAccepted, http.MethodPost, "/v1/tenants/"+s.tenants[name]+"/events", object{
				"type": "tenant.made", "payload": texts[name], "endpoint_ids": []string{e.text("id")},
			}).text("id")
		}
	}
	patient := object{"retry_schedule": []string{"1h"}, "timeout": "1s"}
	mute := receive(s.t, func(int, request) string { <-s.t.Context().Done(); return "" })
	add("mute", mute.url("/"), patient)
	add("refused", "http://"+closedPort(s.t)+"/", patient)
	expired := httptest.NewUnstartedServer(http.NotFoundHandler())
	expired.TLS = pkitest.NewAuthority(s.t, "An authority "+texts["script"]).Server(s.t, pkitest.Wanted{
		Name: texts["script"], Hosts: []string{"127.0.0.1"}, NotBefore: time.Now().AddDate(0, -2, 0), NotAfter: time.Now().AddDate(0, 0, -3),
	})
	expired.TLS.MinVersion = tls.VersionTLS12
	expired.StartTLS()
	s.t.Cleanup(expired.Close)
	add("expired", expired.URL+"/", patient)
	add("deaf", "http://"+egresstest.Deaf(s.t)+"/", object{"retry_schedule": []string{"20ms"}})
}

// makeCalmEndpoints makes those whose receivers take everything, unless they are told otherwise. Each is for one check, to which
// it does what it likes.
func (s *stage) makeCalmEndpoints() {
	schemes := map[string]signer.Scheme{}
	for _, name := range []string{
		"calm", "many", "bulk", "mend", "mend-noscript", "act-pause", "act-dead", "act-test", "act-rotate", "act-replay", "act-event",
		"portal-add", "portal-secret", "portal-test", "portal-replay", "portal-pause",
	} {
		schemes[name] = signer.Standard
	}
	for _, scheme := range signer.Schemes() {
		schemes["signed-"+string(scheme)] = scheme
	}
	for name, scheme := range schemes {
		tenant := s.tenants[name]
		if tenant == "" {
			before, _, _ := strings.Cut(name, "-")
			tenant = s.tenants[before]
		}
		status := &atomic.Int32{}
		status.Store(http.StatusNoContent)
		r := receive(s.t, func(int, request) string { return answer(int(status.Load())) })
		e := s.p.endpoint(tenant, r.url("/hook?token=canary-of-a-query"), object{"description": "Takes everything", "signature": object{"scheme": scheme}})
		secret := cmp.Or(e.object("signature").text("public_key"), e.object("signature").text("secret"))
		s.endpoints[name] = staged{Tenant: tenant, ID: e.text("id"), URL: r.url("/hook"), Secret: secret, Scheme: scheme, receiver: r, status: status}
	}
	for name, e := range s.endpoints {
		if strings.HasPrefix(name, "signed-") || name == "calm" {
			s.events[name] = s.p.want(http.StatusAccepted, http.MethodPost, "/v1/tenants/"+e.Tenant+"/events", object{
				"type": "order.paid", "payload": object{"order": 4711, "note": "it's 5 o'clock; $HOME `id` \\ \"quoted\" é\n"}, "endpoint_ids": []string{e.ID},
			}).text("id")
		}
	}
	var events []object
	for i := range 120 {
		events = append(events, object{"type": "seat.taken", "payload": object{"seat": i}})
	}
	s.p.want(http.StatusAccepted, http.MethodPost, "/v1/tenants/"+s.tenants["many"]+"/events:batch", object{"events": events})
}

// makeEventTypes puts types into the catalogue whose every field is hostile.
func (s *stage) makeEventTypes() {
	texts := hostile("description of an event type")
	for name, text := range map[string]string{
		"hostile.type": strings.Join(slices.Sorted(maps.Values(texts)), " "), "__proto__": texts["script"], "constructor": texts["image"], "valueOf": texts["link"],
		strings.Repeat("long.", 25) + "end": texts["long"],
	} {
		s.p.want(http.StatusCreated, http.MethodPut, "/v1/event-types/"+url.PathEscape(name), object{
			"description": text, "schema": object{"type": "object", "title": text, "description": text}, "example": hostile("example of an event type"),
		})
	}
}

// makeOddEvents makes events that not everybody gets, payloads that are no JSON, and endpoints that nothing gets through to.
func (s *stage) makeOddEvents() {
	tenant := "/v1/tenants/" + s.tenants["filtering"]
	calm := receive(s.t, always(http.StatusNoContent))
	for _, more := range []object{
		{},
		{"filter": `payload.name == "<script>` + ran("filter") + `</script>"`},
		{"filter": `payload.nothing.there == 1`},
		{"event_types": []string{"other.*", strings.Repeat("long.", 25) + "end"}},
		{"disabled": true},
	} {
		s.p.endpoint(s.tenants["filtering"], calm.url("/"), more)
	}
	s.events["filtered"] = s.p.send(s.tenants["filtering"], "hostile.type", object{"name": "calm"})
	for name, payload := range map[string][2]string{
		"page": {"text/html", "<script>" + ran("payload") + "</script>"}, "image": {"image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg" onload="` + ran("payload") + `"/>`},
		"bytes": {"application/octet-stream", "\x00\xff\xfe<script>"}, "empty": {"text/plain", ""},
		"large": {"text/plain", strings.Repeat("<b>large</b> ", 20_000)},
	} {
		r := s.p.do(http.MethodPost, tenant+"/events/payload."+name, payload[0], []byte(payload[1]))
		if r.status != http.StatusAccepted {
			s.t.Fatalf("%s: status %d: %s", name, r.status, r.body)
		}
		s.events["payload-"+name] = r.object(s.t).text("id")
	}
	for _, name := range []string{"stuck", "stuck-noscript", "stuck-event"} {
		owner := cmp.Or(s.tenants[name], s.tenants["signed"])
		e := s.p.endpoint(owner, "http://"+closedPort(s.t)+"/", object{"retry_schedule": []string{"1h"}})
		s.endpoints[name] = staged{Tenant: owner, ID: e.text("id"), URL: e.text("url")}
	}
}

// settle waits until each delivery has come to where it stays.
func (s *stage) settle() {
	for name, event := range s.events {
		several := name == "filtered" || strings.HasPrefix(name, "payload-")
		eventually(s.t, func() string {
			all := s.p.deliveries(event)
			switch {
			case len(all) == 0 || !several && len(all) != 1:
				return fmt.Sprintf("%s: %s", name, sprint(all))
			case s.sent[name] == "":
				s.sent[name] = all[0].text("id")
				return name
			case several || slices.Contains([]string{"succeeded", "failed"}, all[0].text("state")):
				return ""
			case (slices.Contains(waiting, name) || strings.HasPrefix(name, "tenant-")) && all[0].number("attempts") > 0 && all[0].text("state") == "pending":
				return ""
			}
			return fmt.Sprintf("%s is on its way: %s", name, sprint(all[0]))
		})
	}
}

// closedPort is an address of this machine where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strings.Clone(l.Addr().String())
}
