package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"unicode/utf8"

	"github.com/postrider/postrider/signer"
)

// payloads have each broken a sender (FC-001 to FC-011): blanks and escapes that re-serialising loses, numbers beyond a float, duplicate
// keys, NUL, lone surrogates, bytes that are no UTF-8, things that are no object, nothing at all.
var payloads = map[string]string{
	"blanks":        "eyAieiI6IDEsCiAgImEiOiB7InkiOlszLCAyLDFdICwgImIiOm51bGx9LAkibSI6IngiIH0=",
	"markup":        "eyJodG1sIjoiPGI+UiZEIFwibGFiXCI8L2I+IiwidSI6IuKAqOKAqSIsImFtcCI6ImEmYiJ9",
	"numbers":       "eyJpIjo5MDA3MTk5MjU0NzQwOTkzLCJtaW4iOi05MjIzMzcyMDM2ODU0Nzc1ODA4LCJmIjoxLjAsImUiOjFFKzIsInoiOi0wLCJwIjowLjEwMDAwMDAwMDAwMDAwMDAwNTU1MTExNTEyMzEyNTc4MjcsImJpZyI6MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwfQ==",
	"scripts":       "eyJ0ZXh0Ijoi8J+ZhCDigJQg4oCcbmHDr3Zl4oCdIOaXpeacrCIsIm5mZCI6ImXMgSIsIm5mYyI6IsOpIn0=",
	"twice a key":   "eyJpZCI6MSwiaWQiOjJ9",
	"escaped NUL":   "eyJzIjoiYVx1MDAwMGIifQ==",
	"lone half":     "eyJzIjoiXHVkODAwIn0=",
	"not UTF-8":     "eyJzIjoi//4ifQ==",
	"raw NUL":       "eyJzIjoiYQBiIn0=",
	"plain":         "eyJvayI6MX0=",
	"nothing":       "",
	"empty object":  "e30=",
	"a string":      "Ingi",
	"an empty list": "W10=",
	"null":          "bnVsbA==",
	"a test":        "eyJ0ZXN0IjoieWVzIn0=",
}

// Each payload arrives byte for byte in every form of enqueueing, through a retry and a restart in between. A form that
// cannot carry one (bytes that are no JSON, inside JSON) says so with a 4xx; the others in the same breath are not hurt.
func TestPayloadsArriveByteForByte(t *testing.T) {
	t.Parallel()
	r := receive(t, func(_ int, req request) string {
		if req.get("postrider-attempt") == "1" {
			return answer(503)
		}
		return answer(200)
	})
	slow := settings{"DELIVERY_RETRY_SCHEDULE": "3s,100ms"}
	p := serve(t, slow)
	tenant := p.tenant()
	e := p.endpoint(tenant, r.url("/hook"), nil)
	secret := e.object("signature").text("secret")

	want := map[string][]byte{} // by event
	for name, encoded := range payloads {
		payload, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if event := p.sendRaw(tenant, payload); event != "" {
			want[event] = payload
		}
		event := p.sendEnvelope(tenant, payload)
		if event == "" && json.Valid(payload) && utf8.Valid(payload) {
			t.Errorf("%s: refused in an envelope", name)
		}
		if event != "" {
			want[event] = payload
		}
		for _, event := range p.sendBatch(tenant, payload) {
			want[event] = payload
		}
	}
	eventually(t, func() string {
		if r.count() >= len(want) {
			return ""
		}
		return fmt.Sprintf("%d of %d first attempts came", r.count(), len(want))
	})
	p.stop()
	p = serve(t, slow)
	for event := range want {
		p.await(event, "succeeded")
	}

	seen := map[string]int{}
	for _, req := range r.requests() {
		event := req.get("webhook-id")
		payload, known := want[event]
		if !known {
			t.Fatalf("an event nobody sent: %s", event)
		}
		if !bytes.Equal(req.body, payload) {
			t.Errorf("%s arrived as %q", payload, req.body)
		}
		if req.get("Content-Length") != strconv.Itoa(len(payload)) || req.get("Transfer-Encoding") != "" {
			t.Errorf("Content-Length %q, Transfer-Encoding %q for %d bytes", req.get("Content-Length"), req.get("Transfer-Encoding"), len(payload))
		}
		if err := req.verify(signer.Standard, secret); err != nil {
			t.Errorf("%s: %v", payload, err)
		}
		seen[event]++
	}
	for event, payload := range want {
		if seen[event] < 2 {
			t.Errorf("%s: %d requests, want a first attempt and a retry", payload, seen[event])
		}
		got := p.do(http.MethodGet, "/v1/tenants/"+tenant+"/events/"+event+"/payload", "", nil)
		if got.status != http.StatusOK || !bytes.Equal(got.body, payload) {
			t.Errorf("the API shows %q for %q", got.body, payload)
		}
	}
}

// sendRaw has the request's body be the payload, whatever it is.
func (p *process) sendRaw(tenant string, payload []byte) string {
	p.t.Helper()
	got := p.do(http.MethodPost, "/v1/tenants/"+tenant+"/events/raw.form", "application/vnd.acme", payload)
	if got.status != http.StatusAccepted {
		p.t.Errorf("raw %q: status %d: %s", payload, got.status, got.body)
		return ""
	}
	return got.object(p.t).text("id")
}

// sendEnvelope gives "" for a clean refusal.
func (p *process) sendEnvelope(tenant string, payload []byte) string {
	p.t.Helper()
	body := append(append([]byte(`{"type":"envelope", "payload": `), payload...), ` }`...)
	got := p.do(http.MethodPost, "/v1/tenants/"+tenant+"/events", "application/json", body)
	switch {
	case got.status == http.StatusAccepted:
		return got.object(p.t).text("id")
	case got.status/100 == 4 && got.header.Get("Content-Type") == "application/problem+json":
		return ""
	}
	p.t.Errorf("envelope %q: status %d: %s", payload, got.status, got.body)
	return ""
}

func (p *process) sendBatch(tenant string, payload []byte) (events []string) {
	p.t.Helper()
	one := append(append([]byte(`{"type":"batch","payload":`), payload...), '}')
	body := append(append([]byte(`{"events":[`), bytes.Join([][]byte{one, one}, []byte(","))...), `]}`...)
	got := p.do(http.MethodPost, "/v1/tenants/"+tenant+"/events:batch", "application/json", body)
	switch {
	case got.status == http.StatusAccepted:
		for _, event := range got.object(p.t).list("data") {
			events = append(events, event.text("id"))
		}
	case got.status/100 != 4:
		p.t.Errorf("batch %q: status %d: %s", payload, got.status, got.body)
	}
	return events
}
