package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/api"
)

// made is what differs between two answers to the same: ids and times.
var made = regexp.MustCompile(`evt_[0-9a-z]+|20\d\d-[0-9T:.-]+Z|"duration_ms":[0-9.]+`)

func unmade(s string) string { return made.ReplaceAllString(s, "…") }

// Both ways answer alike, byte for byte but for ids and times. A body whose length is not announced goes the general way.
func TestBothWaysAnswerAlike(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	w.endpoint("acme", "")
	w.must(http.StatusAccepted, request{method: "POST", path: "/v1/tenants/acme/events", body: `{"type":"a","payload":1,"uid":"used"}`})
	event := `{"type":"order.paid","payload":{"a":1}}`
	for name, r := range map[string]request{
		"one":                {path: "events", body: event},
		"one with all":       {path: "events", body: `{"type":"a","payload":1,"uid":"UID","group_key":"g","content_type":"text/plain"}`},
		"a batch":            {path: "events:batch", body: `{"events":[` + event + `,` + event + `]}`},
		"a batch with a uid": {path: "events:batch", body: `{"events":[{"type":"a","payload":1,"uid":"UID"}]}`},
		"raw":                {path: "events/order.paid", body: "\x00\xff", contentType: "image/png"},
		"a repeated uid":     {path: "events", body: `{"type":"a","payload":1,"uid":"used"}`},
		"a bad type":         {path: "events", body: `{"type":"a b","payload":1}`},
		"a bad type, raw":    {path: "events/a%20b", body: "x", contentType: "text/plain"},
		"a bad type in raw":  {path: "events/a&b", body: "x", contentType: "text/plain"},
		"a bad content type": {path: "events", body: `{"type":"a","payload":1,"content_type":"<&>"}`},
		"other content":      {path: "events", body: `{"type":"a","payload":2,"uid":"used"}`},
		"other in a batch":   {path: "events:batch", body: `{"events":[` + event + `,{"type":"b","payload":1,"uid":"used"}]}`},
		"large":              {path: "events", body: `{"type":"a","payload":"` + strings.Repeat("x", maxPayload) + `"}`},
		"large, raw":         {path: "events/a", body: strings.Repeat("x", maxPayload+1), contentType: "text/plain"},
		"no JSON":            {path: "events", body: `{"type":`},
		"an unknown field":   {path: "events", body: `{"type":"a","payload":1,"more":1}`},
		"no such tenant":     {path: "../nobody/events", body: event},
		"nobody's id":        {path: "../ten_07xk9v0e8g0003f/events", body: event},
		"all wrong":          {path: "../ten_07xk9v0e8g0003f/events", body: `{"type":"a b","payload":1}`},
		"a strange key":      {path: "events", body: event, header: map[string]string{"Idempotency-Key": "é"}},
		"no key":             {path: "events", body: event, key: "none"},
		"a wrong key":        {path: "events", body: event, key: "prk_nobody_has_this_one_000000000000000000"},
		"a form":             {path: "events", body: event, contentType: "text/plain"},
		"compressed":         {path: "events", body: event, header: map[string]string{"Content-Encoding": "gzip"}},
		"a query":            {path: "events?uid=1", body: event},
		"no path":            {path: "events/", body: event},
		"a long path":        {path: "events/a/b", body: event},
		"dots":               {path: "events/..", body: event},
		"one dot":            {path: "events/.", body: event},
	} {
		t.Run(name, func(t *testing.T) {
			r.method, r.path = "POST", "/v1/tenants/acme/"+r.path
			if rest, up := strings.CutPrefix(r.path, "/v1/tenants/acme/../"); up {
				r.path = "/v1/tenants/" + rest
			}
			r.header = with(r.header, "X-Request-Id", "the-same")
			var answers [2]response
			var logged [2]string
			for n, chunked := range []bool{false, true} {
				one := r
				one.chunked = chunked
				one.body = strings.ReplaceAll(r.body, "UID", fmt.Sprintf("u%d-%d", n, len(name)))
				before := len(w.log.String())
				answers[n] = w.do(one)
				logged[n] = unmade(w.log.String()[before:])
				answers[n].body = []byte(strings.ReplaceAll(unmade(string(answers[n].body)), fmt.Sprintf(`"u%d-`, n), `"u`))
				answers[n].header.Del("Date")
				if at := answers[n].header.Get("Location"); at != "" {
					answers[n].header.Set("Location", unmade(at))
				}
			}
			if answers[0].status != answers[1].status || string(answers[0].body) != string(answers[1].body) {
				t.Errorf("%d %s\n%d %s", answers[0].status, answers[0].body, answers[1].status, answers[1].body)
			}
			if !reflect.DeepEqual(answers[0].header, answers[1].header) {
				t.Errorf("%v\n%v", answers[0].header, answers[1].header)
			}
			if logged[0] != logged[1] {
				t.Errorf("logged %s%s", logged[0], logged[1])
			}
		})
	}
}

func with(header map[string]string, name, value string) map[string]string {
	all := map[string]string{name: value}
	for n, v := range header {
		all[n] = v
	}
	return all
}

// enqueueRequest is a plain one, by the admin.
func enqueueRequest(path, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+adminKey)
	r.Header.Set("Content-Type", "application/json")
	return r
}

func TestUsualRequestsGoTheQuickWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant("acme")
	event := `{"type":"a","payload":1}`
	for _, test := range []struct {
		path, body string
		change     func(*http.Request)
		quick      bool
	}{
		{"/v1/tenants/" + tenant + "/events", event, nil, true},
		{"/v1/tenants/" + tenant + "/events:batch", `{"events":[` + event + `]}`, nil, true},
		{"/v1/tenants/" + tenant + "/events/a", "x", nil, true},
		{"/v1/tenants/" + tenant + "/events", event, func(r *http.Request) { r.Header.Set("Idempotency-Key", "k") }, true},
		{"/v1/tenants/" + tenant + "/events", event, func(r *http.Request) { r.Header.Add("Idempotency-Key", " ") }, false},
		{"/v1/tenants/" + tenant + "/events", event, func(r *http.Request) { r.ContentLength = -1 }, false},
		{"/v1/tenants/" + tenant + "/events", event, func(r *http.Request) { r.Method = http.MethodPut }, false},
		{"/v1/tenants/" + tenant + "/events", event, func(r *http.Request) { r.Header.Del("Authorization") }, false},
		{"/v1/tenants/stranger/events", event, nil, false},
	} {
		r := enqueueRequest(test.path, test.body)
		if test.change != nil {
			test.change(r)
		}
		answer, quick := api.Quickly(w.http.Config.Handler, r)
		if quick != test.quick || quick && answer.Code != http.StatusAccepted {
			t.Errorf("%s %s: %v, %d %s", test.path, test.body, quick, answer.Code, answer.Body)
		}
		if !quick { // nothing of it is used up
			body := make([]byte, len(test.body))
			if n, err := r.Body.Read(body); n != len(body) || err != nil {
				t.Errorf("%s %s: %d bytes left, %v", test.path, test.body, n, err)
			}
		}
	}
}

// A uid may become another tenant's at any moment, and a tenant may go. The quick way finds that out by itself.
func TestTheQuickWayKnowsNoTenantThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.tenant("acme")
	enqueue := request{method: "POST", path: "/v1/tenants/acme/events", body: `{"type":"a","payload":1}`}
	tenantOf := func() string {
		t.Helper()
		res := w.do(enqueue)
		if res.status != http.StatusAccepted {
			t.Fatalf("%d %s", res.status, res.body)
		}
		return strings.Split(res.header.Get("Location"), "/")[3]
	}
	quick := func() bool {
		_, quick := api.Quickly(w.http.Config.Handler, enqueueRequest(enqueue.path, enqueue.body))
		return quick
	}
	if quick() {
		t.Error("a uid nobody asked for yet goes the quick way")
	}
	if got := tenantOf(); got != first || !quick() {
		t.Errorf("tenant %s, not %s", got, first)
	}
	w.must(http.StatusOK, request{method: "PATCH", path: "/v1/tenants/acme", body: `{"uid":"former"}`})
	if res := w.do(enqueue); res.status != http.StatusNotFound {
		t.Errorf("a uid that is nobody's: %d %s", res.status, res.body)
	}
	second := w.tenant("acme")
	if got := tenantOf(); got != second || !quick() {
		t.Errorf("tenant %s, not %s", got, second)
	}
	w.must(http.StatusNoContent, request{method: "DELETE", path: "/v1/tenants/acme"})
	if res := w.do(enqueue); res.status != http.StatusNotFound {
		t.Errorf("a tenant that was deleted: %d %s", res.status, res.body)
	}
	third := w.tenant("acme")
	if got := tenantOf(); got != third {
		t.Errorf("tenant %s, not %s", got, third)
	}
	byID := enqueue
	byID.path = "/v1/tenants/" + second + "/events"
	if res := w.do(byID); res.status != http.StatusNotFound {
		t.Errorf("the id of a tenant that was deleted: %d %s", res.status, res.body)
	}
}

// A key that is bound to a tenant enqueues for this one alone, and one without the scope for none.
func TestTheQuickWayAsksWhoMay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own, other := w.tenant("acme"), w.tenant("other")
	writer, reader := w.apiKey(own, "events:write"), w.apiKey(own, "deliveries:read")
	for _, test := range []struct {
		key, tenant string
		status      int
	}{
		{writer, own, 202}, {writer, "acme", 202}, {writer, other, 404}, {writer, "other", 404}, {reader, own, 403}, {reader, "acme", 403},
	} {
		w.do(request{method: "GET", path: "/v1/tenants/" + test.tenant}) // it is known now, if it has a uid
		res := w.do(request{method: "POST", path: "/v1/tenants/" + test.tenant + "/events", key: test.key, body: `{"type":"a","payload":1}`})
		if res.status != test.status {
			t.Errorf("%+v: %d %s", test, res.status, res.body)
		}
	}
}
