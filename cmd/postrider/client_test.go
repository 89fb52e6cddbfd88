package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// server is a stand-in that keeps what it was asked and answers what it is told to.
type recorded struct {
	method, uri string
	header      http.Header
	body        string
}

type standIn struct {
	*httptest.Server
	mu    sync.Mutex
	asked []recorded
}

func newStandIn(t *testing.T, answer http.HandlerFunc) *standIn {
	t.Helper()
	s := &standIn{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.asked = append(s.asked, recorded{r.Method, r.RequestURI, r.Header, string(body)})
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// args puts the stand-in's URL and a key behind a command line.
func (s *standIn) args(line ...string) []string {
	return append(line, "--url", s.URL, "--api-key", "the-key")
}

func answerJSON(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestAProblemIsOneReadableLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"places": {422, `{"title":"Unprocessable Entity","status":422,"detail":"/url: needs a host (and 1 more)",
			"errors":[{"pointer":"/url","detail":"needs a host"},{"pointer":"","detail":"too big"}]}`, "/url: needs a host; too big (422 unprocessable entity)"},
		"no places":   {404, `{"title":"Not Found","status":404,"detail":"no such delivery"}`, "no such delivery (404 not found)"},
		"a stranger":  {502, `<html>bad gateway</html>`, "the server answered 502 and not as Postrider does; is this its URL?"},
		"a redirect":  {302, ``, "the server answered 302 and not as Postrider does; is this its URL?"},
		"hostile":     {409, "{\"title\":\"Conflict\",\"status\":409,\"detail\":\"\\u001b[2J\\nx\"}", "\ufffd[2J x (409 conflict)"},
		"no JSON":     {200, `oops`, "read the server's answer: invalid character 'o' looking for beginning of value"},
		"wrong shape": {200, `[1]`, "read the server's answer: json: cannot unmarshal array into Go value of type main.delivery"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				answerJSON(c.status, c.body)(w, r)
			})
			got := cli(t.Context(), nil, "", s.args("deliveries", "retry", "dlv_1")...)
			if got.code != exitFailed || got.errout != "postrider: "+c.want+"\n" {
				t.Errorf("exit %d, %q, want %q", got.code, got.errout, c.want)
			}
			if len(s.asked) != 1 { // a redirect would have been followed, with the key
				t.Errorf("asked %d times", len(s.asked))
			}
		})
	}
}

func TestACallCarriesTheKeyAndItsPathAsItIs(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, answerJSON(200, `{"id":"x","status":"enabled"}`))
	must(t, nil, s.args("endpoints", "show", "a/../b?c", "--tenant", "acme:1")...)
	got := s.asked[0]
	if got.method != "GET" || got.uri != "/v1/tenants/acme:1/endpoints/a%2F..%2Fb%3Fc" {
		t.Errorf("%s %s", got.method, got.uri)
	}
	if got.header.Get("Authorization") != "Bearer the-key" || got.header.Get("User-Agent") != userAgent() {
		t.Errorf("headers %v", got.header)
	}
}

func TestAListGoesThroughPagesUpToItsLimit(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, func(w http.ResponseWriter, r *http.Request) {
		next := `"` + r.URL.Query().Get("cursor") + `x"`
		if next == `"xx"` {
			next = "null"
		}
		row := `{"id":"dlv_1","state":"failed","reason":"exhausted","attempts":6,"last_outcome":"retryable","last_status":500}`
		answerJSON(200, `{"data":[`+row+strings.Repeat(","+row, 99)+`],"next_cursor":`+next+`}`)(w, r)
	})
	out := must(t, nil, s.args("deliveries", "list", "--limit", "150", "--state", "failed,held", "--since", "1h", "--json")...)
	var p page
	if err := json.Unmarshal([]byte(out), &p); err != nil || len(p.Data) != 200 || p.Next != nil {
		t.Errorf("%d rows, next %v, %v", len(p.Data), p.Next, err)
	}
	var asked []string
	for _, a := range s.asked {
		asked = append(asked, a.uri)
	}
	want := []string{
		"/v1/deliveries?limit=150&since=2026-11-30T08%3A00%3A00Z&state=failed%2Cheld",
		"/v1/deliveries?cursor=x&limit=50&since=2026-11-30T08%3A00%3A00Z&state=failed%2Cheld",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked for %v\nwant %v", asked, want)
	}
	got := cli(t.Context(), nil, "", s.args("deliveries", "list", "--limit", "100")...)
	if got.code != exitDone || strings.Count(got.out, "failed (exhausted)") != 100 || !strings.Contains(got.errout, "--cursor x\n") {
		t.Errorf("exit %d, %s%s", got.code, got.out, got.errout)
	}
}

func TestAnEventsPayloadGoesOutByteForByte(t *testing.T) {
	t.Parallel()
	const payload = `{ "b":1, "a":1E+2, "a":"<&>\u2028" }`
	receipt := answerJSON(202, `{"id":"evt_1","type":"order.paid","status":"queued","deliveries":1}`)
	for name, c := range map[string]struct {
		stdin string
		args  []string
		want  recorded
	}{
		"envelope": {"", []string{"--data", payload, "--uid", "u1", "--idempotency-key", "k1"}, recorded{
			"POST", "/v1/tenants/acme/events",
			http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"k1"}},
			`{"type":"order.paid","uid":"u1","payload":` + payload + `}`,
		}},
		"from the standard input": {payload + "\n", []string{"--file", "-", "--deliver-at", "10m", "--endpoint", "a,b"}, recorded{
			"POST", "/v1/tenants/acme/events",
			http.Header{"Content-Type": {"application/json"}},
			`{"deliver_at":"2026-11-30T09:10:00Z","endpoint_ids":["a","b"],"type":"order.paid","payload":` + payload + "\n" + `}`,
		}},
		"raw": {"\x00\xff", []string{"--raw", "--file", "-", "--content-type", "image/png", "--group-key", "g"}, recorded{
			"POST", "/v1/tenants/acme/events/order.paid?group_key=g", http.Header{"Content-Type": {"image/png"}}, "\x00\xff",
		}},
		"raw and empty": {"", []string{"--raw", "--data", ""}, recorded{
			"POST", "/v1/tenants/acme/events/order.paid", http.Header{"Content-Type": {"application/octet-stream"}}, "",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t, receipt)
			args := s.args(append([]string{"events", "send", "--tenant", "acme", "--type", "order.paid"}, c.args...)...)
			got := cli(t.Context(), nil, c.stdin, args...)
			if got.code != exitDone || got.out != "evt_1 order.paid: queued, 1 delivery\n" {
				t.Fatalf("exit %d, %s%s", got.code, got.out, got.errout)
			}
			asked := s.asked[0]
			if asked.method != c.want.method || asked.uri != c.want.uri || asked.body != c.want.body {
				t.Errorf("sent %s %s\n%s\nwant %s %s\n%s", asked.method, asked.uri, asked.body, c.want.method, c.want.uri, c.want.body)
			}
			for name := range c.want.header {
				if asked.header.Get(name) != c.want.header.Get(name) {
					t.Errorf("%s: %q", name, asked.header.Get(name))
				}
			}
		})
	}
}

func TestAnEndpointsFieldsAreThoseThatWereGiven(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"create": {
			[]string{
				"create", "https://x.test/", "--event-types", "order.*,a", "--header", "X-A: b: c", "--scheme", "stripe",
				"--secret-file", "-", "--max-in-flight", "3", "--retry-schedule", "1s,2s", "--disabled",
			},
			`{"disabled":true,"event_types":["order.*","a"],"headers":{"X-A":"b: c"},"max_in_flight":3,"retry_schedule":["1s","2s"],` +
				`"signature":{"scheme":"stripe","secret":"whsec_given"},"url":"https://x.test/"}`,
		},
		"a URL alone": {[]string{"create", "https://x.test/"}, `{"url":"https://x.test/"}`},
		"update": {
			[]string{"update", "ep_1", "--endpoint-url", "https://y.test/", "--status", "enabled", "--timeout", "5s"},
			`{"status":"enabled","timeout":"5s","url":"https://y.test/"}`,
		},
		"back to the defaults": {
			[]string{"update", "ep_1", "--timeout=", "--event-types=", "--header=", "--max-in-flight", "0"},
			`{"event_types":null,"headers":{},"max_in_flight":null,"timeout":null}`,
		},
		"rotate":                         {[]string{"rotate", "ep_1", "--overlap", "0s", "--secret-file", "-"}, `{"overlap":"0s","secret":"whsec_given"}`},
		"test":                           {[]string{"test", "ep_1", "--data", `[1, 2]`}, `{"payload":[1, 2]}`},
		"test with the server's payload": {[]string{"test", "ep_1"}, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t, answerJSON(200, `{"id":"ep_1","status":"enabled","signature":{"secret":"whsec_x"},"secret":"whsec_x"}`))
			args := s.args(append(append([]string{"endpoints"}, c.args...), "--tenant", "acme")...)
			got := cli(t.Context(), nil, "whsec_given\n", args...)
			if got.code != exitDone || got.out == "" {
				t.Fatalf("exit %d, %s%s", got.code, got.out, got.errout)
			}
			if s.asked[0].body != c.want {
				t.Errorf("sent\n%s\nwant\n%s", s.asked[0].body, c.want)
			}
		})
	}
}

func TestTheCurrentSecretsEndIsUnmistakable(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, answerJSON(200, `{"secret":"whsec_new","created_at":"2026-11-30T08:00:00Z",
		"previous":[{"secret":"whsec_old","created_at":"2026-11-01T08:00:00Z","expires_at":"2026-12-01T08:00:00Z"}]}`))
	out := must(t, nil, s.args("endpoints", "secret", "ep_1", "--tenant", "acme")...)
	want := "SECRET     MADE                  SIGNS UNTIL\n" +
		"whsec_new  2026-11-30T08:00:00Z  it is replaced\n" +
		"whsec_old  2026-11-01T08:00:00Z  2026-12-01T08:00:00Z\n"
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

func TestUpdateSpeaksOfWhatIsThere(t *testing.T) {
	t.Parallel()
	out := must(t, nil, "endpoints", "update", "--help")
	for _, of := range []string{"(default all)", "(the default)", "(default: one is made)", "(default [])"} {
		if strings.Contains(out, of) {
			t.Errorf("it speaks of create's defaults, %s:\n%s", of, out)
		}
	}
	if !strings.Contains(out, "takes a field back to") || !strings.Contains(out, "0: the server's default") {
		t.Errorf("it does not say how to get a default back:\n%s", out)
	}
}

func TestAThingThatIsGoneIsSaidToBe(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, answerJSON(204, ""))
	for line, want := range map[string]string{
		"endpoints delete ep_1 --tenant acme": "deleted ep_1\n",
		"keys revoke key_1":                   "revoked key_1\n",
	} {
		if out := must(t, nil, s.args(strings.Fields(line)...)...); out != want {
			t.Errorf("%s: %q", line, out)
		}
		out := must(t, nil, s.args(append(strings.Fields(line), "--json")...)...)
		if !json.Valid([]byte(out)) || !strings.Contains(out, strings.Fields(want)[0]) {
			t.Errorf("%s --json: %q", line, out)
		}
	}
}
