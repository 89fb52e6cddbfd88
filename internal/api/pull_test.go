package api_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/signer"
)

// pulling is a world with a tenant acme and its endpoint inbox, which is fetched from.
type pulling struct {
	*world
	made   tree // the answer that made the endpoint
	key    string
	secret string
}

const inbox = "/v1/tenants/acme/endpoints/inbox"

func newPulling(t *testing.T) *pulling {
	t.Helper()
	p := &pulling{world: newWorld(t)}
	p.acme = p.tenant("acme")
	p.made = p.must(http.StatusCreated, request{
		method: "POST", path: "/v1/tenants/acme/endpoints", body: `{"kind":"pull","uid":"inbox","headers":{"X-Shop":"7"}}`,
	})
	p.key = p.apiKey(p.acme, "deliveries:write") // an organizer's own
	p.secret = p.made.object("signature").text("secret")
	return p
}

func (p *pulling) poll(query string) []tree {
	p.t.Helper()
	return p.must(http.StatusOK, request{method: "GET", path: inbox + "/poll" + query, key: p.key}).list("data")
}

func (p *pulling) ack(tokens ...string) tree {
	p.t.Helper()
	return p.must(http.StatusOK, request{
		method: "POST", path: inbox + "/ack", body: `{"tokens":["` + strings.Join(tokens, `","`) + `"]}`, key: p.key,
	})
}

func TestAnOwnerFetchesVerifiesAndAcknowledges(t *testing.T) {
	t.Parallel()
	p := newPulling(t)
	if url, there := p.made["url"]; url != nil || !there || p.made.text("kind") != "pull" {
		t.Errorf("it was made as %v", p.made)
	}
	const payload = "{ \"total\": 1E+2,\t\"é\":\"<&>\" }"
	evt := p.must(http.StatusAccepted, request{
		method: "POST", path: "/v1/tenants/acme/events", body: `{"type":"order.paid","payload":` + payload + `}`,
	}).text("id")
	got := p.poll("?limit=5&lease=2m")
	if len(got) != 1 {
		t.Fatalf("the poll gave %v", got)
	}
	one := got[0]
	bytes, err := base64.StdEncoding.DecodeString(one.text("payload_base64"))
	if err != nil || string(bytes) != payload {
		t.Errorf("the payload came as %q, %v", bytes, err)
	}
	header := http.Header{}
	for name, value := range one.object("headers") {
		header.Set(name, fmt.Sprint(value))
	}
	if err := signer.Verify(signer.Standard, "", p.secret, header.Get, bytes, time.Now(), time.Minute); err != nil {
		t.Errorf("the signature: %v", err)
	}
	if header.Get("X-Shop") != "7" || header.Get("Content-Type") != "application/json" || header.Get("Postrider-Attempt") != "1" ||
		header.Get("Webhook-Id") != evt || one.text("event_id") != evt || one.text("event_type") != "order.paid" ||
		header.Get("Postrider-Delivery-Id") != one.text("delivery_id") || one["attempt"] != 1.0 || header.Get("User-Agent") != "" {
		t.Errorf("it came as %v", one)
	}
	if delivery := p.must(200, request{method: "GET", path: "/v1/deliveries/" + one.text("delivery_id")}); delivery.text("state") != "in_flight" {
		t.Errorf("fetched, it is %v", delivery)
	}
	for range 2 { // the second time changes nothing
		answer := p.ack(one.text("token"), "AQAB")
		data := answer.list("data")
		if answer["acknowledged"] != 1.0 || data[0].text("state") != "acknowledged" || data[0].text("token") != one.text("token") ||
			data[0].text("delivery_id") != one.text("delivery_id") || data[1].text("state") != "invalid" || data[1]["delivery_id"] != nil {
			t.Errorf("acknowledged: %v", answer)
		}
	}
	delivery := p.must(200, request{method: "GET", path: "/v1/deliveries/" + one.text("delivery_id")})
	if delivery.text("state") != "succeeded" || delivery["attempts"] != 1.0 || delivery.text("last_outcome") != "succeeded" {
		t.Errorf("acknowledged, it is %v", delivery)
	}
	attempts := p.must(200, request{method: "GET", path: "/v1/deliveries/" + one.text("delivery_id") + "/attempts"}).list("data")
	if len(attempts) != 1 || attempts[0].text("outcome") != "succeeded" || attempts[0]["status"] != nil || attempts[0]["address"] != nil {
		t.Fatalf("its attempts are %v", attempts)
	}
	kept := fmt.Sprint(attempts[0]["request_headers"])
	if !strings.Contains(kept, header.Get("Webhook-Signature")) || strings.Contains(kept, "Accept-Encoding") {
		t.Errorf("of its headers it kept %s", kept)
	}
}

func TestAPollWaitsForWhatIsAccepted(t *testing.T) {
	t.Parallel()
	p := newPulling(t)
	answers := make(chan []tree)
	go func() { answers <- p.poll("?wait=30s") }()
	p.event("acme", "order.paid")
	if got := <-answers; len(got) != 1 {
		t.Errorf("it came back with %v", got)
	}
	go func() { answers <- p.poll("?wait=30s") }()
	close(p.stopping)
	if got := <-answers; len(got) != 0 {
		t.Errorf("after the stop it came back with %v", got)
	}
	p.event("acme", "order.paid")
	if got := p.poll("?wait=30s"); len(got) != 1 {
		t.Errorf("what is due is given away to the last: %v", got)
	}
}

func TestWhatAPollRefuses(t *testing.T) {
	t.Parallel()
	p := newPulling(t)
	p.endpoint("acme", `,"uid":"pushed"`)
	for query, pointer := range map[string]string{
		"?limit=0": "?limit", "?limit=101": "?limit", "?wait=31s": "?wait", "?wait=-1s": "?wait", "?wait=long": "?wait",
		"?lease=999ms": "?lease", "?lease=61m": "?lease", "?cursor=x": "?cursor",
	} {
		if got := p.refused(422, request{method: "GET", path: inbox + "/poll" + query}); !got.pointsTo(pointer) {
			t.Errorf("%s is answered with %+v", query, got)
		}
	}
	for _, body := range []string{`{"tokens":[]}`, `{}`, `{"tokens":[` + strings.Repeat(`"x",`, 1000) + `"x"]}`} {
		if got := p.refused(422, request{method: "POST", path: inbox + "/ack", body: body}); len(got.Errors) != 1 {
			t.Errorf("%.40s is answered with %+v", body, got)
		}
	}
	const pushed = "/v1/tenants/acme/endpoints/pushed"
	p.refused(409, request{method: "GET", path: pushed + "/poll"})
	p.refused(409, request{method: "POST", path: pushed + "/ack", body: `{"tokens":["x"]}`})
	if res := p.do(request{method: "HEAD", path: inbox + "/poll"}); res.status != http.StatusMethodNotAllowed {
		t.Errorf("HEAD is answered with %d", res.status)
	}
	p.must(200, request{method: "PATCH", path: inbox, body: `{"status":"disabled"}`})
	p.refused(409, request{method: "GET", path: inbox + "/poll"})
}

func TestTheKindOfAnEndpointStays(t *testing.T) {
	t.Parallel()
	p := newPulling(t)
	p.endpoint("acme", `,"uid":"pushed"`)
	for body, pointer := range map[string]string{
		`{"kind":"push","url":"https://a.example/"}`: "/kind", `{"kind":null}`: "/kind", `{"url":"https://a.example/"}`: "/url",
		`{"max_in_flight":1}`: "/max_in_flight", `{"rate_limit":{"limit":1,"per":"1s"}}`: "/rate_limit", `{"timeout":"1s"}`: "/timeout",
		`{"retry_schedule":["1m"]}`: "/retry_schedule", `{"ordering":"group"}`: "/ordering",
	} {
		if got := p.refused(422, request{method: "PATCH", path: inbox, body: body}); !got.pointsTo(pointer) {
			t.Errorf("%s is answered with %+v", body, got)
		}
		made := strings.Replace(body, "{", `{"kind":"pull",`, 1)
		if strings.Contains(body, "kind") {
			continue
		}
		if got := p.refused(422, request{method: "POST", path: "/v1/tenants/acme/endpoints", body: made}); !got.pointsTo(pointer) {
			t.Errorf("%s is answered with %+v", made, got)
		}
	}
	if got := p.refused(422, request{method: "PATCH", path: "/v1/tenants/acme/endpoints/pushed", body: `{"kind":"pull"}`}); !got.pointsTo("/kind") {
		t.Errorf("a push that becomes a pull is answered with %+v", got)
	}
	p.must(200, request{method: "PATCH", path: inbox, body: `{"kind":"pull","url":null,"description":"d","timeout":null,"signature":{"scheme":"stripe"}}`})
	p.must(200, request{method: "PATCH", path: "/v1/tenants/acme/endpoints/pushed", body: `{"kind":"push"}`})
}
