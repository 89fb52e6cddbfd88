package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
)

// object is a JSON object of an answer.
type object map[string]any

func (o object) text(key string) string {
	s, _ := o[key].(string)
	return s
}

func (o object) number(key string) int {
	n, _ := o[key].(float64)
	return int(n)
}

func (o object) object(key string) object {
	m, _ := o[key].(map[string]any)
	return m
}

func (o object) list(key string) []object {
	raw, _ := o[key].([]any)
	out := make([]object, 0, len(raw))
	for _, v := range raw {
		m, _ := v.(map[string]any)
		out = append(out, m)
	}
	return out
}

// reply is an answer of the API.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r reply) object(t *testing.T) object {
	t.Helper()
	var o object
	if err := json.Unmarshal(r.body, &o); err != nil {
		t.Fatalf("status %d, body %q: %v", r.status, r.body, err)
	}
	return o
}

// try sends a request and gives the answer, or an error if there is none.
func (p *process) try(method, path, contentType string, body []byte, headers ...string) (reply, error) {
	req, err := http.NewRequest(method, p.url+path, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+adminKey)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, got}, err
}

func (p *process) do(method, path, contentType string, body []byte, headers ...string) reply {
	p.t.Helper()
	r, err := p.try(method, path, contentType, body, headers...)
	if err != nil {
		p.t.Fatalf("%s %s: %v\n%s", method, path, err, p.logged())
	}
	return r
}

// want sends JSON and fails the test unless the answer has that status.
func (p *process) want(status int, method, path string, body any) object {
	p.t.Helper()
	var raw []byte
	contentType := ""
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			p.t.Fatal(err)
		}
		contentType = "application/json"
	}
	r := p.do(method, path, contentType, raw)
	if r.status != status {
		p.t.Fatalf("%s %s: status %d, want %d: %s", method, path, r.status, status, r.body)
	}
	if len(r.body) == 0 {
		return nil
	}
	return r.object(p.t)
}

func (p *process) get(path string) object {
	p.t.Helper()
	return p.want(http.StatusOK, http.MethodGet, path, nil)
}

// tenant makes a tenant and gives its id.
func (p *process) tenant() string {
	p.t.Helper()
	return p.want(http.StatusCreated, http.MethodPost, "/v1/tenants", object{"name": "Acme"}).text("id")
}

// endpoint makes an endpoint and gives the whole answer, the secret included.
func (p *process) endpoint(tenant, url string, more object) object {
	p.t.Helper()
	body := object{"url": url}
	for k, v := range more {
		body[k] = v
	}
	return p.want(http.StatusCreated, http.MethodPost, "/v1/tenants/"+tenant+"/endpoints", body)
}

// send enqueues an event and gives its id.
func (p *process) send(tenant, kind string, payload any) string {
	p.t.Helper()
	return p.want(http.StatusAccepted, http.MethodPost, "/v1/tenants/"+tenant+"/events",
		object{"type": kind, "payload": payload}).text("id")
}

// deliveries gives those of an event.
func (p *process) deliveries(event string) []object {
	p.t.Helper()
	return p.get("/v1/deliveries?q=" + event).list("data")
}

// await waits until the event's only delivery is in a state, and gives it.
func (p *process) await(event, state string) (delivery object) {
	p.t.Helper()
	eventually(p.t, func() string {
		all := p.deliveries(event)
		if len(all) != 1 {
			return fmt.Sprintf("event %s has %d deliveries", event, len(all))
		}
		if delivery = all[0]; delivery.text("state") != state {
			return fmt.Sprintf("want %s: %s", state, sprint(delivery))
		}
		return ""
	})
	return delivery
}

func (p *process) attempts(delivery object) []object {
	p.t.Helper()
	return p.get("/v1/deliveries/" + delivery.text("id") + "/attempts").list("data")
}

// alert waits for an endpoint's alert in a state.
func (p *process) alert(endpoint, state string) (found object) {
	p.t.Helper()
	eventually(p.t, func() string {
		all := p.get("/v1/alerts?state=" + state).list("data")
		for _, a := range all {
			if a.text("endpoint_id") == endpoint {
				found = a
				return ""
			}
		}
		return fmt.Sprintf("no %s alert of %s among %s", state, endpoint, sprint(all))
	})
	return found
}
