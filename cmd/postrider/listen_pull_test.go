package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// inbox makes an endpoint of kind pull for acme.
func inbox(t *testing.T, env []string) {
	t.Helper()
	c, err := newClient(strings.TrimPrefix(env[0], "POSTRIDER_URL="), adminKey)
	if err != nil {
		t.Fatal(err)
	}
	what := call{method: http.MethodPost, path: endpointPath("acme"), body: []byte(`{"kind":"pull","uid":"inbox"}`)}
	if _, err := c.do(t.Context(), what); err != nil {
		t.Fatal(err)
	}
}

// What an app does not take comes again, and what it takes is acknowledged.
func TestListenFetchesForAnAppAndAcknowledgesWhatItTakes(t *testing.T) {
	t.Parallel()
	env := acme(t)
	inbox(t, env)
	const payload = `{ "b":1, "a":"<>" }`
	var mu sync.Mutex
	var got []string
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, string(body)+" "+r.Header.Get("Postrider-Attempt"))
		if len(got) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(app.Close)
	must(t, env, "events", "send", "--tenant", "acme", "--type", "order.paid", "--data", payload, "--uid", "e1")
	l := goCLI(t, env, "listen", "--pull", "--tenant", "acme", "--endpoint", "inbox", "--forward-to", app.URL, "--lease", "1s", "--count", "2")
	<-l.done
	if l.code != exitDone || fmt.Sprint(got) != fmt.Sprint([]string{payload + " 1", payload + " 2"}) {
		t.Errorf("exit %d, the app got %v: %s", l.code, got, l.log)
	}
	for _, want := range []string{
		"verified order.paid, attempt 1\n", "answered 500 by the app", "; it is not acknowledged, and comes again\n",
		"verified order.paid, attempt 2 (seen before)\n", "; it is acknowledged\n",
	} {
		if !strings.Contains(l.out.String(), want) {
			t.Errorf("no %q in\n%s", want, l.out)
		}
	}
	if out := must(t, env, "events", "show", "e1", "--tenant", "acme"); !strings.Contains(out, "status      succeeded") {
		t.Errorf("the event afterwards:\n%s", out)
	}
}

func TestListenTakesAnEndpointToFetchFromAwayOnASignal(t *testing.T) {
	t.Parallel()
	env := acme(t)
	p := startProcess(t, env, "listen", "--pull", "--tenant", "acme", "--event-types", "order.*")
	p.out.await(t, `(?m)^fetching from the endpoint (ep_\w+)$`)
	for _, name := range []string{"other", "order.paid"} {
		must(t, env, "events", "send", "--tenant", "acme", "--type", name, "--data", "{}")
	}
	p.out.await(t, `(verified) order\.paid, attempt 1\n(?s:.*); it is acknowledged`)
	p.signal(t, os.Interrupt)
	if code := p.exit(t); code != exitDone || strings.Contains(p.out.String(), "verified other") {
		t.Errorf("exit %d:\n%s", code, p.out)
	}
	if ids := endpointsOf(t, env); len(ids) > 0 {
		t.Errorf("it leaves %v", ids)
	}
}

func TestListenGoesOnFetchingAfterTheServerWasAway(t *testing.T) {
	t.Parallel()
	env := serverEnv(t, "POSTRIDER_HTTP_ADDR="+freeAddr(t))
	server := goCLI(t, env, "serve")
	client := clientEnv(t, server)
	must(t, client, "tenants", "create", "Acme", "--uid", "acme")
	l := goCLI(t, client, "listen", "--pull", "--tenant", "acme", "--once")
	l.log.await(t, `(fetching) from`)
	server.stop(t)
	l.log.await(t, `; (asking again) in`)
	clientEnv(t, goCLI(t, env, "serve"))
	l.log.await(t, `(the server is there again)`)
	must(t, client, "events", "send", "--tenant", "acme", "--type", "order.paid", "--data", "{}")
	<-l.done
	if l.code != exitDone || !strings.Contains(l.out.String(), "verified order.paid") || len(endpointsOf(t, client)) > 0 {
		t.Errorf("exit %d: %s%s", l.code, l.out, l.log)
	}
}

// An acknowledgement that the server does not hear at once is said again; what is not acknowledged is told.
func TestListenSaysAcknowledgementsAgain(t *testing.T) {
	t.Parallel()
	const signed = `"headers":{"webhook-id":"msg_p5jXN8AQM9LWM0D4loKWxJek","webhook-timestamp":"1614265330",
		"webhook-signature":"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},"payload_base64":"eyJ0ZXN0IjogMjQzMjIzMjMxNH0="`
	var mu sync.Mutex
	acks := 0
	s := newStandIn(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case strings.HasSuffix(r.URL.Path, "/poll"):
			answerJSON(200, `{"data":[{"token":"tok_1",`+signed+`}]}`)(w, r)
		case !strings.HasSuffix(r.URL.Path, "/ack"):
			answerJSON(200, `{"id":"ep_1","signature":{"scheme":"standard"},"secret":"`+vectorSecret+`"}`)(w, r)
		case acks == 0:
			acks++
			answerJSON(503, `{"title":"Unavailable","status":503,"detail":"later"}`)(w, r)
		case acks == 1:
			acks++
			answerJSON(200, `{"acknowledged":0,"data":[{"token":"tok_1","delivery_id":"dlv_1","state":"lost","detail":"fetched again\u001b"}]}`)(w, r)
		}
	})
	got := cliAt(t.Context(), time.Unix(1614265331, 0), nil, "", s.args("listen", "--pull", "--tenant", "acme", "--endpoint", "ep_1", "--once", "--delay", "1ms")...)
	if got.code != exitDone || !strings.Contains(got.errout, "acknowledge: later (503 unavailable); trying again in 250ms\n") ||
		!strings.Contains(got.errout, "not acknowledged: dlv_1: lost, fetched again\ufffd\n") {
		t.Errorf("%+v", got)
	}
	var uris []string
	for _, one := range s.asked {
		uris = append(uris, one.method+" "+one.uri)
	}
	if all := strings.Join(uris, "\n"); !strings.Contains(all, "GET /v1/tenants/acme/endpoints/ep_1/poll?lease=30.001s&limit=1&wait=20s\n") ||
		strings.Count(all, "POST /v1/tenants/acme/endpoints/ep_1/ack") != 2 ||
		s.asked[len(s.asked)-1].body != `{"tokens":["tok_1"]}` {
		t.Errorf("it asked\n%s", all)
	}
}

func TestListenDoesNotFetchFromWhatIsPosted(t *testing.T) {
	t.Parallel()
	env := acme(t)
	must(t, env, "endpoints", "create", "http://127.0.0.1:9999/", "--tenant", "acme", "--uid", "shop")
	got := cli(t.Context(), env, "", "listen", "--pull", "--tenant", "acme", "--endpoint", "shop")
	if got.code != exitFailed || !strings.Contains(got.errout, "the endpoint is of kind push") {
		t.Errorf("%+v", got)
	}
}
