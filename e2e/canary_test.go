package e2e

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// canaries are secrets that may appear in the answer that makes them and nowhere else.
type canaries map[string]string

// found names the canary that text holds, in whatever form, or "".
func (c canaries) found(text string) string {
	for name, secret := range c {
		for _, form := range spellings([]byte(secret)) {
			if strings.Contains(text, form) {
				return name + ", as " + form
			}
		}
	}
	return ""
}

// keyPrefixes stand before a key in base64.
var keyPrefixes = regexp.MustCompile(`^wh(sec|sk)_`)

// spellings gives what shows that a text holds a secret: the secret itself, the base64 in it and the key that this is of; each
// as it is, in hex (which is how PostgreSQL spells bytea), for a URL, and in the three ways that base64 of a longer text may
// spell it.
func spellings(secret []byte) []string {
	bare := keyPrefixes.ReplaceAll(secret, nil)
	parts := [][]byte{bare}
	if key, err := base64.StdEncoding.DecodeString(string(bare)); err == nil && len(key) >= 16 {
		parts = append(parts, key[:min(len(key), 32)]) // of an Ed25519 key the half that is secret
	}
	var all []string
	for _, part := range parts {
		all = append(all, string(part), hex.EncodeToString(part), strings.ToUpper(hex.EncodeToString(part)), url.QueryEscape(string(part)),
			url.PathEscape(string(part)))
		for skip := range 3 {
			whole := part[skip : skip+(len(part)-skip)/3*3]
			all = append(all, base64.StdEncoding.EncodeToString(whole), base64.URLEncoding.EncodeToString(whole))
		}
	}
	return all
}

// The search finds a secret in each of the ways in which one could be stored.
func TestSpellingsAreFound(t *testing.T) {
	t.Parallel()
	const secret = "whsec_Q2FuYXJ5/UNhbmFyeS+DYW5hcnktQ2FuYXJ5LTAwMQ=="
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	c := canaries{"it": secret}
	var texts []string
	for _, before := range []string{"", "a", "ab", "abc"} {
		for _, held := range []string{secret, string(key)} {
			whole := before + held + "z"
			texts = append(texts, whole, `\x`+hex.EncodeToString([]byte(whole)), fmt.Sprintf("%X", whole), url.QueryEscape(whole),
				base64.StdEncoding.EncodeToString([]byte(whole)), base64.RawURLEncoding.EncodeToString([]byte(whole)))
		}
	}
	for _, text := range texts {
		if c.found(text) == "" {
			t.Errorf("%q goes unseen", text)
		}
	}
	if hit := c.found("whsec_ and Q2FuYXJ5"); hit != "" {
		t.Errorf("what is no secret is one: %s", hit)
	}
}

// FC-049: a secret shows in the answer that makes it and through the secret call, and in no log line, metric, error, list
// answer, attempt, delivered request or row of the database.
func TestSecretsStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	secrets := canaries{
		"the secret":        "whsec_Q2FuYXJ5LUNhbmFyeS1DYW5hcnktQ2FuYXJ5LTAwMQ==",
		"the next secret":   "whsec_Q2FuYXJ5LVJvdGF0ZWQtQ2FuYXJ5LVJvdGF0ZS0wMg==",
		"a text secret":     "canary-text-secret-3-of-the-stripe-kind",
		"a static header's": "Bearer canary-header-4-abcdefghijkl",
		"the URL's query":   "canary-query-5-mnopqrstuvwx",
		"the admin key":     adminKey,
		"the sealing key":   sealKey,
	}
	r := receive(t, func(n int, _ request) string {
		if n%2 == 1 {
			return answer(500)
		}
		return answer(200)
	})
	p := serve(t, settings{"LOG_LEVEL": "debug", "DELIVERY_RETRY_SCHEDULE": "50ms,50ms"})
	tenant := p.tenant()
	e := p.endpoint(tenant, r.url("/hook?token="+secrets["the URL's query"]), object{
		"signature": object{"scheme": "standard", "secret": secrets["the secret"]},
		"headers":   object{"Authorization": secrets["a static header's"]},
	})
	nobody := receive(t, always(200))
	_ = nobody.l.Close()
	dead := p.endpoint(tenant, nobody.url("/?token=")+secrets["the URL's query"], object{
		"signature": object{"scheme": "stripe", "secret": secrets["a text secret"]},
	})
	path := "/v1/tenants/" + tenant + "/endpoints/" + e.text("id")

	first := p.send(tenant, "a", object{"n": 1})
	eventually(t, func() string {
		for _, d := range p.deliveries(first) {
			if s := d.text("state"); s != "succeeded" && s != "failed" {
				return sprint(d)
			}
		}
		return ""
	})
	p.want(http.StatusOK, http.MethodPost, path+"/secret/rotate", object{"secret": secrets["the next secret"], "overlap": "1h"})
	for _, d := range p.deliveries(first) {
		p.want(http.StatusOK, http.MethodPost, "/v1/deliveries/"+d.text("id")+"/retry", nil)
	}
	p.want(http.StatusAccepted, http.MethodPost, path+"/test", object{})
	eventually(t, p.unfinished)
	p.alert(dead.text("id"), "open")
	for _, bad := range []string{"whsec_" + strings.Repeat("!", 40), secrets["the secret"] + "\n"} {
		r := p.do(http.MethodPost, path+"/secret/rotate", "application/json", []byte(sprint(object{"secret": bad})))
		if r.status != http.StatusUnprocessableEntity {
			t.Errorf("a bad secret: status %d", r.status)
		}
		if hit := secrets.found(string(r.body)); hit != "" {
			t.Errorf("the refusal repeats %s: %s", hit, r.body)
		}
	}

	shown := p.do(http.MethodGet, path+"/secret", "", nil)
	if !strings.Contains(string(shown.body), secrets["the next secret"]) {
		t.Errorf("the secret call does not show the secret: %s", shown.body)
	}
	// The endpoint's owner sees their own URL and headers there; nobody else's view may have them.
	pages := []string{
		"/v1/tenants", "/v1/tenants/" + tenant, "/v1/tenants/" + tenant + "/events", "/v1/tenants/" + tenant + "/events/" + first,
		"/v1/deliveries", "/v1/alerts", "/v1/api-keys", "/v1/audit-log?limit=250", "/metrics", "/openapi.json", "/docs", "/readyz",
	}
	for _, d := range p.get("/v1/deliveries").list("data") {
		pages = append(pages, "/v1/deliveries/"+d.text("id"), "/v1/deliveries/"+d.text("id")+"/attempts")
	}
	owners := canaries{"the URL's query": secrets["the URL's query"], "a static header's": secrets["a static header's"]}
	for _, page := range pages {
		body := string(p.do(http.MethodGet, page, "", nil).body)
		if hit := secrets.found(body); hit != "" {
			t.Errorf("%s shows %s:\n%s", page, hit, body)
		}
	}
	for _, page := range []string{path, "/v1/tenants/" + tenant + "/endpoints"} {
		body := string(p.do(http.MethodGet, page, "", nil).body)
		for _, own := range owners {
			body = strings.ReplaceAll(body, own, "")
		}
		if hit := secrets.found(body); hit != "" {
			t.Errorf("%s shows %s:\n%s", page, hit, body)
		}
	}
	for _, req := range r.requests() {
		whole := fmt.Sprint(req.header) + string(req.body)
		whole = strings.ReplaceAll(whole, owners["a static header's"], "") // it is for the receiver
		if hit := secrets.found(whole); hit != "" {
			t.Errorf("a delivered request holds %s", hit)
		}
	}
	p.stop()
	if hit := secrets.found(p.logged()); hit != "" {
		t.Errorf("the log holds %s:\n%s", hit, p.logged())
	}
	delete(secrets, "the URL's query") // a URL is no secret of ours: it is stored as it is
	if hit := secrets.found(dump(t)); hit != "" {
		t.Errorf("the database holds %s", hit)
	}
}
