package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestEndpointAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant("acme")
	res := w.do(request{method: "POST", path: "/v1/tenants/acme/endpoints", body: `{
		"url": "https://example.com/hook?x=1", "uid": "shop", "description": "the shop", "event_types": ["order.*"],
		"headers": {"X-Api-Key": "k", "Authorization": "Basic YTpi"}, "max_in_flight": 5.0, "timeout": "1m",
		"rate_limit": {"per": "90m", "limit": 100.0},
		"retry_schedule": ["1s", "1d", "90m"], "metadata": {"n": 9007199254740993},
		"ordering": "group", "kind": "push", "format": "cloudevents", "trace_context": true, "filter": null, "tls": null, "disabled": true}`})
	got := res.tree(t)
	want := map[string]string{
		"tenant_id": tenant, "uid": "shop", "url": "https://example.com/hook?x=1", "description": "the shop",
		"event_types": "[order.*]", "headers": "map[Authorization:Basic YTpi X-Api-Key:k]", "max_in_flight": "5",
		"timeout": "1m", "retry_schedule": "[1s 1d 1h30m]", "ordering": "group", "rate_limit": "map[limit:100 per:1h30m]", "kind": "push", "format": "cloudevents", "trace_context": "true",
		"filter": "<nil>", "status": "disabled", "status_reason": "disabled_by_user", "consecutive_failures": "0",
		"failing_since": "<nil>", "last_error": "<nil>", "paused_until": "<nil>",
		"breaker": "map[next_probe_at:<nil> since:<nil> state:closed]",
	}
	for name, value := range want {
		if fmt.Sprint(got[name]) != value {
			t.Errorf("%s: %v, not %v", name, got[name], value)
		}
	}
	for _, name := range []string{"created_at", "updated_at", "status_changed_at"} {
		if !isStamp(got.text(name)) {
			t.Errorf("%s: %q", name, got.text(name))
		}
	}
	secret := fmt.Sprint(got["signature"].(map[string]any)["secret"])
	location := "/v1/tenants/" + tenant + "/endpoints/" + got.text("id")
	if res.status != 201 || res.header.Get("Location") != location || res.header.Get("ETag") != `"1"` ||
		!strings.HasPrefix(secret, "whsec_") {
		t.Errorf("%d %v %s", res.status, res.header, res.body)
	}
	if !strings.Contains(string(res.body), "9007199254740993") {
		t.Errorf("metadata lost its digits: %s", res.body)
	}
	for _, path := range []string{location, "/v1/tenants/acme/endpoints", "/v1/tenants/acme/endpoints/shop"} {
		if read := w.do(request{method: "GET", path: path}); read.status != 200 || strings.Contains(string(read.body), "whsec_") {
			t.Errorf("%s shows the secret: %s", path, read.body)
		}
	}
	shown := w.must(200, request{method: "GET", path: location + "/secret"})
	if shown.text("secret") != secret {
		t.Errorf("the secret that signs is %q, the one shown at first was %q", shown.text("secret"), secret)
	}
}

func TestEndpointRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	w.endpoint("acme", `,"uid":"taken"`)
	for body, pointer := range map[string]string{
		`{}`: "/url", `{"url":null}`: "/url", `{"url":"http://example.com/"}`: "/url",
		`{"url":"https://a.example/","timeout":"5"}`:                                                "/timeout",
		`{"url":"https://a.example/","timeout":"-5s"}`:                                              "/timeout",
		`{"url":"https://a.example/","timeout":15}`:                                                 "/timeout",
		`{"url":"https://a.example/","retry_schedule":["1m","soon"]}`:                               "/retry_schedule/1",
		`{"url":"https://a.example/","retry_schedule":[]}`:                                          "/retry_schedule",
		`{"url":"https://a.example/","max_in_flight":1.5}`:                                          "/max_in_flight",
		`{"url":"https://a.example/","max_in_flight":0}`:                                            "/max_in_flight",
		`{"url":"https://a.example/","max_in_flight":1e300}`:                                        "/max_in_flight",
		`{"url":"https://a.example/","event_types":["*.x"]}`:                                        "/event_types/0",
		`{"url":"https://a.example/","headers":{"Host":"x"}}`:                                       "/headers/Host",
		`{"url":"https://a.example/","headers":{"a/b":"x"}}`:                                        "/headers/a~1b",
		`{"url":"https://a.example/","headers":{"X-A":"a\r\nb"}}`:                                   "/headers/X-A",
		`{"url":"https://a.example/","signature":{"scheme":"md5"}}`:                                 "/signature/scheme",
		`{"url":"https://a.example/","signature":{"secret":""}}`:                                    "/signature/secret",
		`{"url":"https://a.example/","signature":{"secret":"whsec_QUJD"}}`:                          "/signature/secret",
		`{"url":"https://a.example/","signature":{"scheme":"github","header":"X-Sig"}}`:             "/signature/header",
		`{"url":"https://a.example/","signature":{"Scheme":"github"}}`:                              "/signature/Scheme",
		`{"url":"https://a.example/","uid":"ep_x"}`:                                                 "/uid",
		`{"url":"https://a.example/","metadata":{"a":{"b":"` + strings.Repeat("x", 20<<10) + `"}}}`: "/metadata",
		`{"url":"https://a.example/","filter":"payload."}`:                                          "/filter",
		`{"url":"https://a.example/","rate_limit":{"limit":0,"per":"1s"}}`:                          "/rate_limit/limit",
		`{"url":"https://a.example/","rate_limit":{"limit":10001,"per":"1d"}}`:                      "/rate_limit/limit",
		`{"url":"https://a.example/","rate_limit":{"limit":1.5,"per":"1s"}}`:                        "/rate_limit/limit",
		`{"url":"https://a.example/","rate_limit":{"limit":"1","per":"1s"}}`:                        "/rate_limit/limit",
		`{"url":"https://a.example/","rate_limit":{"per":"1s"}}`:                                    "/rate_limit/limit",
		`{"url":"https://a.example/","rate_limit":{"limit":1}}`:                                     "/rate_limit/per",
		`{"url":"https://a.example/","rate_limit":{"limit":1,"per":"second"}}`:                      "/rate_limit/per",
		`{"url":"https://a.example/","rate_limit":{"limit":1,"per":"25h"}}`:                         "/rate_limit/per",
		`{"url":"https://a.example/","rate_limit":{"limit":1,"per":"1s","burst":5}}`:                "/rate_limit/burst",
		`{"url":"https://a.example/","rate_limit":{"limit":10000,"per":"1ms"}}`:                     "/rate_limit",
		`{"url":"https://a.example/","rate_limit":"100/1s"}`:                                        "/rate_limit",
		`{"url":"https://a.example/","ordering":"fifo"}`:                                            "/ordering",
		`{"url":"https://a.example/","ordering":true}`:                                              "/ordering",
		`{"url":"https://a.example/","trace_context":"yes"}`:                                        "/trace_context",
		`{"url":"https://a.example/","trace_context":true,"headers":{"traceparent":"x"}}`:           "/headers/traceparent",
		`{"url":"https://a.example/","tls":{"ca":"x"}}`:                                             "/tls/ca",
		`{"url":"https://a.example/","format":"xml"}`:                                               "/format",
		`{"url":"https://a.example/","kind":"throw"}`:                                               "/kind",
		`{"kind":"push"}`: "/url",
	} {
		r := request{method: "POST", path: "/v1/tenants/acme/endpoints", body: body}
		if p := w.refused(422, r); !p.pointsTo(pointer) {
			t.Errorf("%.100s is not pointed to at %s: %+v", body, pointer, p)
		}
		if pointer == "/url" && !strings.Contains(body, "http:") || strings.Contains(body, "ep_x") {
			continue
		}
		r = request{method: "PATCH", path: "/v1/tenants/acme/endpoints/taken", body: body}
		if strings.Contains(body, `"secret"`) {
			r.body = strings.Replace(body, `"signature":{`, `"signature":{"scheme":"stripe",`, 1)
		}
		if p := w.refused(422, r); !p.pointsTo(pointer) {
			t.Errorf("PATCH %.100s is not pointed to at %s: %+v", r.body, pointer, p)
		}
	}
	several := w.refused(422, request{
		method: "POST", path: "/v1/tenants/acme/endpoints", body: `{"url":"nix","uid":"a b","headers":{"Host":"x"}}`,
	})
	if len(several.Errors) != 3 || !strings.Contains(several.Detail, "and 2 more") {
		t.Errorf("not all faults are told at once: %+v", several)
	}
	w.refused(409, request{
		method: "POST", path: "/v1/tenants/acme/endpoints", body: `{"url":"https://a.example/","uid":"taken"}`,
	})
}

// PATCH follows RFC 7396: absent keeps, null goes back to the default.
func TestEndpointPatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	ep := "/v1/tenants/acme/endpoints/" + w.endpoint("acme", `,"uid":"u","timeout":"10s","max_in_flight":3,
		"retry_schedule":["1m"],"rate_limit":{"limit":5,"per":"1s"},"ordering":"group","event_types":["a"],"headers":{"X-A":"1"},"metadata":{"k":1},"description":"d"`)
	patch := func(body string) request { return request{method: "PATCH", path: ep, body: body} }
	kept := w.must(200, patch(`{}`))
	for name, value := range map[string]string{
		"uid": "u", "timeout": "10s", "max_in_flight": "3", "retry_schedule": "[1m]", "event_types": "[a]",
		"rate_limit": "map[limit:5 per:1s]", "ordering": "group",
		"headers": "map[X-A:1]", "metadata": "map[k:1]", "description": "d",
	} {
		if fmt.Sprint(kept[name]) != value {
			t.Errorf("an empty patch: %s is %v", name, kept[name])
		}
	}
	cleared := w.must(200, patch(`{"uid":null,"timeout":null,"max_in_flight":null,"retry_schedule":null,"event_types":null,
		"headers":null,"metadata":null,"description":null,"rate_limit":null,"ordering":null}`))
	for name, value := range map[string]string{
		"uid": "<nil>", "timeout": "<nil>", "max_in_flight": "<nil>", "retry_schedule": "<nil>", "event_types": "[]",
		"rate_limit": "<nil>", "ordering": "none",
		"headers": "map[]", "metadata": "map[]", "description": "",
	} {
		if fmt.Sprint(cleared[name]) != value {
			t.Errorf("null: %s is %v", name, cleared[name])
		}
	}
	for body, pointer := range map[string]string{
		`{"url":null}`: "/url", `{"status":null}`: "/status", `{"status":"dead"}`: "/status", `{"status":"on"}`: "/status",
		`{"signature":{"secret":"x"}}`: "/signature/secret", `{"disabled":true}`: "/disabled",
	} {
		if p := w.refused(422, patch(body)); !p.pointsTo(pointer) {
			t.Errorf("%s: %+v", body, p)
		}
	}
	w.must(200, request{method: "PATCH", path: ep, body: `{"description":"m"}`, contentType: "application/merge-patch+json"})
	w.refused(415, request{
		method: "POST", path: "/v1/tenants", body: `{"name":"x"}`, contentType: "application/merge-patch+json",
	})
	off := w.must(200, patch(`{"status":"disabled"}`))
	if on := w.must(200, patch(`{"status":"enabled"}`)); off.text("status") != "disabled" || on.text("status") != "enabled" {
		t.Errorf("%v\n%v", off, on)
	}
}

func TestEndpointETag(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	ep := "/v1/tenants/acme/endpoints/" + w.endpoint("acme", "")
	tag := w.do(request{method: "GET", path: ep}).header.Get("ETag")
	change := func(ifMatch, description string) request {
		return request{
			method: "PATCH", path: ep, body: `{"description":"` + description + `"}`,
			header: map[string]string{"If-Match": ifMatch},
		}
	}
	changed := w.do(change(tag, "one"))
	if changed.status != 200 || changed.header.Get("ETag") == tag {
		t.Errorf("%d, ETag %s after %s", changed.status, changed.header.Get("ETag"), tag)
	}
	w.refused(http.StatusPreconditionFailed, change(tag, "two"))
	w.refused(http.StatusPreconditionFailed, change("nonsense", "two"))
	w.must(200, change("*", "three"))
	if got := w.do(request{method: "GET", path: ep}); got.tree(t).text("description") != "three" ||
		got.header.Get("ETag") == changed.header.Get("ETag") {
		t.Errorf("%v %s", got.header, got.body)
	}
}

func TestSecretRotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	path := "/v1/tenants/acme/endpoints/" + w.endpoint("acme", "") + "/secret"
	first := w.must(200, request{method: "GET", path: path})
	second := w.must(200, request{method: "POST", path: path + "/rotate"})
	previous := second.list("previous")
	if first.text("secret") == second.text("secret") || len(previous) != 1 ||
		previous[0].text("secret") != first.text("secret") || !isStamp(previous[0].text("expires_at")) {
		t.Errorf("%v\n%v", first, second)
	}
	given := "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	third := w.must(200, request{method: "POST", path: path + "/rotate", body: `{"secret":"` + given + `","overlap":"0s"}`})
	if third.text("secret") != given || len(third.list("previous")) != 0 {
		t.Errorf("%v", third)
	}
	for body, pointer := range map[string]string{
		`{"overlap":"8d"}`: "/overlap", `{"overlap":"x"}`: "/overlap", `{"secret":""}`: "/secret",
		`{"secret":" ` + given + `"}`: "/secret",
	} {
		if p := w.refused(422, request{method: "POST", path: path + "/rotate", body: body}); !p.pointsTo(pointer) {
			t.Errorf("%s: %+v", body, p)
		}
	}
	github := "/v1/tenants/acme/endpoints/" + w.endpoint("acme", `,"signature":{"scheme":"github"}`) + "/secret/rotate"
	if p := w.refused(422, request{method: "POST", path: github}); !p.pointsTo("/overlap") {
		t.Errorf("%+v", p)
	}
	w.must(200, request{method: "POST", path: github, body: `{"overlap":"0s"}`})
	public := "/v1/tenants/acme/endpoints/" + w.endpoint("acme", `,"signature":{"scheme":"standard-ed25519"}`)
	shown := w.must(200, request{method: "GET", path: public + "/secret"})
	signature, _ := w.must(200, request{method: "GET", path: public})["signature"].(map[string]any)
	if !strings.HasPrefix(shown.text("public_key"), "whpk_") || signature["public_key"] != shown["public_key"] {
		t.Errorf("%v %v", shown, signature)
	}
}

// What the description gives as examples works as it is.
func TestDocumentedExamples(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var spec struct {
		Paths map[string]map[string]struct {
			RequestBody *struct {
				Content map[string]struct{ Example json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal(s.do(request{method: "GET", path: "/openapi.json"}).body, &spec); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for path, methods := range spec.Paths {
		for method, op := range methods {
			if op.RequestBody == nil || op.RequestBody.Content["application/json"].Example == nil {
				continue
			}
			r := request{method: strings.ToUpper(method), path: s.url(path, nil)}
			r.body = string(op.RequestBody.Content["application/json"].Example)
			if res := s.do(r); res.status >= 300 {
				t.Errorf("%s %s %s: %d %s", r.method, r.path, r.body, res.status, res.body)
			}
			tried++
		}
	}
	if tried < 10 {
		t.Errorf("%d examples", tried)
	}
}
