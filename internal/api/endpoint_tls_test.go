package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/pkitest"
)

// The key goes in and never comes out, whoever asks; what it belongs to is shown.
func TestEndpointTLS(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	ca := pkitest.NewAuthority(t, "an authority")
	cert, key := ca.Issue(t, pkitest.Wanted{Name: "acme"})
	body := func(fields map[string]any) string {
		text, err := json.Marshal(map[string]any{"tls": fields})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	all := body(map[string]any{"ca": ca.PEM(), "certificate": cert, "key": key})
	made := w.must(201, request{
		method: "POST", path: "/v1/tenants/acme/endpoints", body: `{"url":"https://example.com/hook",` + all[1:],
	})
	path := "/v1/tenants/acme/endpoints/" + made.text("id")
	shown := func(e tree) string {
		got, _ := e["tls"].(map[string]any)
		if got == nil {
			return "none"
		}
		ca, _ := got["ca"].(string)
		cert, _ := got["certificate"].(string)
		subject, _ := got["certificate_subject"].(string)
		end, _ := got["certificate_not_after"].(string)
		if len(got) != 4 {
			t.Errorf("shown is %v", got)
		}
		return strings.Join([]string{strings.ReplaceAll(ca, "\n", ""), strings.ReplaceAll(cert, "\n", ""), subject, end}, "|")
	}
	flat := func(pem string) string { return strings.ReplaceAll(pem, "\n", "") }
	both := flat(ca.PEM()) + "|" + flat(cert) + "|CN=acme|2100-01-01T00:00:00.000Z"
	patch := func(body string) request { return request{method: "PATCH", path: path, body: body} }
	for what, c := range map[string]struct {
		r    request
		want string
	}{
		"read":           {request{method: "GET", path: path}, both},
		"another change": {patch(`{"description":"x"}`), both},
		"nothing of it":  {patch(`{"tls":{}}`), both},
	} {
		if got := shown(w.must(200, c.r)); got != c.want {
			t.Errorf("%s: %s", what, got)
		}
	}
	listed := w.must(200, request{method: "GET", path: "/v1/tenants/acme/endpoints"}).list("data")
	if len(listed) != 1 || shown(listed[0]) != both || shown(made) != both {
		t.Errorf("listed is %v", listed)
	}
	for _, c := range []struct{ body, want string }{
		{`{"tls":{"ca":null}}`, "|" + flat(cert) + "|CN=acme|2100-01-01T00:00:00.000Z"},
		{body(map[string]any{"ca": ca.PEM(), "certificate": nil}), flat(ca.PEM()) + "|||"},
		{`{"tls":null}`, "none"},
		{all, both},
		{`{"tls":{"ca":null,"certificate":null}}`, "none"},
	} {
		if got := shown(w.must(200, patch(c.body))); got != c.want {
			t.Errorf("%.60s: %s", c.body, got)
		}
	}
	for body, pointer := range map[string]string{
		body(map[string]any{"certificate": cert}):       "/tls/key",
		body(map[string]any{"key": key}):                "/tls/certificate",
		`{"tls":{"ca":""}}`:                             "/tls/ca",
		`{"tls":{"ca":"` + flat(ca.PEM()) + `"}}`:       "/tls/ca",
		`{"tls":{"ca":7}}`:                              "/tls/ca",
		`{"tls":{"authority":"x"}}`:                     "/tls/authority",
		`{"tls":"x"}`:                                   "/tls",
		body(map[string]any{"certificate": cert + key}): "/tls/certificate",
	} {
		if p := w.refused(422, patch(body)); !p.pointsTo(pointer) {
			t.Errorf("%.60s: %+v", body, p)
		}
	}
	secret := strings.Split(key, "\n")[1]
	for _, where := range []string{string(w.do(request{method: "GET", path: path}).body), w.log.String(), string(w.do(patch(body(map[string]any{"ca": key}))).body)} {
		if strings.Contains(where, secret) {
			t.Errorf("the key shows: %s", where)
		}
	}
}
