package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/signer"
)

const listening = `(?m)^listening on (http://\S+)$`

// post sends a request as an endpoint with this secret gets it.
func post(t *testing.T, base, secret string, body []byte, change func(http.Header)) (status int) {
	t.Helper()
	s, err := signer.ParseSecret(signer.Standard, secret)
	if err != nil {
		t.Fatal(err)
	}
	list, err := signer.Sign(signer.Standard, "", []signer.Secret{s}, signer.Message{EventID: "evt_1", Timestamp: time.Now().Unix(), Body: body})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	list = append(list, signer.Header{Name: signer.HeaderDeliveryID, Value: "dlv_1"}, signer.Header{Name: signer.HeaderEventType, Value: "order.paid"},
		signer.Header{Name: signer.HeaderAttempt, Value: "1"}, signer.Header{Name: "Content-Type", Value: "application/json"})
	for _, h := range list {
		req.Header.Set(h.Name, h.Value)
	}
	if change != nil {
		change(req.Header)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

func TestListenVerifiesAndPrintsForPeople(t *testing.T) {
	t.Parallel()
	l := goCLI(t, []string{listenVariable + "=" + vectorSecret}, "listen", "--status", "202")
	base := l.log.await(t, listening)
	for _, step := range []struct {
		secret string
		body   string
		change func(http.Header)
		status int
		says   string
	}{
		{vectorSecret, `{"a":1}`, nil, 202, " verified order.paid, attempt 1\n    event evt_1, delivery dlv_1, 7 bytes of application/json\n    {\n      \"a\": 1\n    }\n    answered 202\n"},
		{vectorSecret, `{"a":1}`, nil, 202, " verified order.paid, attempt 1 (seen before)\n"},
		{vectorSecret, "\x1b[2J\u202e", func(h http.Header) {
			h.Set(signer.HeaderEventType, "a\u009bb")
			h.Set(signer.HeaderReplay, "true")
		}, 202, " verified a\ufffdb, attempt 1 (seen before) (replay)\n    event evt_1, delivery dlv_1, 7 bytes of application/json\n    \ufffd[2J\ufffd\n"},
		{"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "", nil, 400, " REFUSED order.paid, attempt 1\n    event evt_1, delivery dlv_1, 0 bytes of application/json\n    why: no signature matches: "},
		{vectorSecret, "{}", func(h http.Header) { h.Del(signer.HeaderID) }, 400, "    header_missing: webhook-id is missing; the headers are "},
		{vectorSecret, "{}", func(h http.Header) {
			h.Set(signer.HeaderSignature, strings.TrimPrefix(h.Get(signer.HeaderSignature), "v1,"))
		}, 400, "    signature_version: "},
	} {
		if status := post(t, base, step.secret, []byte(step.body), step.change); status != step.status {
			t.Errorf("%q is answered %d", step.body, status)
		}
		if out := l.out.String(); !strings.Contains(out, step.says) {
			t.Errorf("no %q in\n%s", step.says, out)
		}
	}
	if code := l.stop(t); code != exitDone {
		t.Errorf("exit %d: %s", code, l.log)
	}
	if all := l.out.String() + l.log.String(); strings.Contains(all, vectorSecret[6:]) || strings.ContainsAny(all, "\x1b\u009b\u202e") {
		t.Errorf("it prints\n%s", all)
	}
}

// listened are the requests that were printed for machines.
func listened(t *testing.T, out string) (all []record) {
	t.Helper()
	for line := range strings.Lines(out) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, r)
	}
	return all
}

func TestListenPrintsForMachinesAndEndsAfterEnough(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(vectorSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := goCLI(t, nil, "listen", "--secret-file", file, "--count", "2", "--json")
	base := l.log.await(t, listening)
	const text = "{ \"a\": \"<&>\u2028\x1b\" }\n"
	post(t, base, vectorSecret, []byte(text), nil)
	post(t, base, "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", []byte(text), nil)
	post(t, base, vectorSecret, []byte{0xff, 0}, nil)
	<-l.done
	all := listened(t, l.out.String())
	if l.code != exitDone || len(all) != 3 {
		t.Fatalf("exit %d, %d requests: %s%s", l.code, len(all), l.out, l.log)
	}
	first, refused, binary := all[0], all[1], all[2]
	if !first.Verified || *first.Body != text || *first.Attempt != 1 || first.EventID != "evt_1" || first.Headers["webhook-id"][0] != "evt_1" ||
		first.Answer != (recordedAnswer{Status: 204, By: "listen"}) || first.SeenBefore || first.Error != nil {
		t.Errorf("%+v", first)
	}
	if refused.Verified || refused.Error == nil || len(refused.Findings) != 1 || refused.Findings[0].Code != "no_match" || refused.Answer.Status != 400 {
		t.Errorf("%+v", refused)
	}
	if !binary.SeenBefore || binary.Body != nil || string(binary.BodyBase64) != "\xff\x00" {
		t.Errorf("%+v", binary)
	}
	once := goCLI(t, nil, "listen", "--secret", vectorSecret, "--once")
	once.log.await(t, listening)
	if code := once.stop(t); code != exitFailed || !strings.Contains(once.log.String(), "stopped after 0 of 1 requests") {
		t.Errorf("stopped too early: exit %d, %s", code, once.log)
	}
}

// endpointsOf are the ids of a tenant's endpoints.
func endpointsOf(t *testing.T, env []string) (ids []string) {
	t.Helper()
	var p page
	if err := json.Unmarshal([]byte(must(t, env, "endpoints", "list", "--tenant", "acme", "--json")), &p); err != nil {
		t.Fatal(err)
	}
	list, err := rows[endpoint](p)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		ids = append(ids, e.ID)
	}
	return ids
}

func acme(t *testing.T) (env []string) {
	t.Helper()
	env = clientEnv(t, goCLI(t, serverEnv(t), "serve"))
	must(t, env, "tenants", "create", "Acme", "--uid", "acme")
	return env
}

// The endpoint that was made is taken away again, however the process is asked to stop.
func TestListenTakesItsEndpointAwayOnASignal(t *testing.T) {
	t.Parallel()
	env := acme(t)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p := startProcess(t, env, "listen", "--tenant", "acme", "--event-types", "order.*", "--filter", "payload.n > 1", "--scheme", "stripe")
		id := p.out.await(t, `(?m)^made the endpoint (ep_\w+) of acme; it is deleted at the end$`)
		p.out.await(t, listening)
		if ids := endpointsOf(t, env); !slices.Equal(ids, []string{id}) {
			t.Errorf("while it listens there are %v, not %s", ids, id)
		}
		for _, payload := range []string{`{"n":1}`, `{"n":2}`} {
			must(t, env, "events", "send", "--tenant", "acme", "--type", "order.paid", "--data", payload)
		}
		p.out.await(t, `verified order\.paid, attempt 1\n.*\n    {\n      "n": (2)\n`)
		p.signal(t, s)
		if code := p.exit(t); code != exitDone || !strings.Contains(p.out.String(), "deleted the endpoint "+id) || strings.Contains(p.out.String(), `"n": 1`) {
			t.Errorf("%v: exit %d:\n%s", s, code, p.out)
		}
		if ids := endpointsOf(t, env); len(ids) > 0 {
			t.Errorf("%v: it leaves %v", s, ids)
		}
	}
}

// A subscriber that fails at first is tried again by a real Postrider, with the same ids.
func TestListenFailsTheFirstAttemptsOfEachDelivery(t *testing.T) {
	t.Parallel()
	env := acme(t)
	l := goCLI(t, env, "listen", "--tenant", "acme", "--fail-first", "2", "--retry-schedule", "20ms,20ms,20ms", "--count", "6", "--json")
	l.log.await(t, listening)
	for range 2 {
		must(t, env, "events", "send", "--tenant", "acme", "--type", "order.paid", "--data", "{}")
	}
	<-l.done
	statuses := map[string][]int{}
	for _, r := range listened(t, l.out.String()) {
		if !r.Verified || *r.Attempt != len(statuses[r.DeliveryID])+1 || r.SeenBefore != (*r.Attempt > 1) {
			t.Errorf("%+v", r)
		}
		statuses[r.DeliveryID] = append(statuses[r.DeliveryID], r.Answer.Status)
	}
	if l.code != exitDone || len(statuses) != 2 {
		t.Errorf("exit %d, %v: %s", l.code, statuses, l.log)
	}
	for id, of := range statuses {
		if !slices.Equal(of, []int{503, 503, 204}) {
			t.Errorf("%s was answered %v", id, of)
		}
	}
}

func TestListenPassesOnToAnApp(t *testing.T) {
	t.Parallel()
	env := acme(t)
	bodies := make(chan string, 10)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "thanks")
	}))
	t.Cleanup(app.Close)
	l := goCLI(t, env, "listen", "--tenant", "acme", "--forward-to", app.URL+"/hooks", "--delay", "1ms", "--retry-schedule", "1h")
	l.log.await(t, listening)
	const payload = `{ "b":1, "a":"<>" }`
	out := must(t, env, "trigger", "order.paid", "--tenant", "acme", "--data", payload, "--wait")
	if got := <-bodies; got != payload || !strings.Contains(out, "attempt 1 succeeded 202") {
		t.Errorf("the app got %s, the sender says %s", got, out)
	}
	l.out.await(t, `answered 202 by the app after \d`)
	app.Close()
	must(t, env, "events", "send", "--tenant", "acme", "--type", "order.paid", "--data", "{}")
	l.out.await(t, `answered 502 after \S+: the app at http://127\.0\.0\.1:\d+/hooks refuses connections: is it running\?`)
	if code := l.stop(t); code != exitDone || len(endpointsOf(t, env)) > 0 {
		t.Errorf("exit %d: %s", code, l.log)
	}
}

// The secrets of an endpoint that is there are used, also after a rotation, and it stays.
func TestListenTakesTheSecretsOfAnEndpoint(t *testing.T) {
	t.Parallel()
	env := acme(t)
	addr := freeAddr(t)
	must(t, env, "endpoints", "create", "http://"+addr+"/", "--tenant", "acme", "--uid", "shop", "--retry-schedule", "20ms,20ms,20ms")
	l := goCLI(t, env, "listen", "--tenant", "acme", "--endpoint", "shop", "--addr", addr, "--count", "2")
	l.log.await(t, listening)
	must(t, env, "trigger", "before", "--tenant", "acme", "--data", "{}", "--wait")
	must(t, env, "endpoints", "rotate", "shop", "--tenant", "acme", "--overlap", "0s")
	must(t, env, "trigger", "after", "--tenant", "acme", "--data", "{}", "--wait")
	<-l.done
	if l.code != exitDone || strings.Count(l.out.String(), " verified ") != 2 || len(endpointsOf(t, env)) != 1 {
		t.Errorf("exit %d: %s%s", l.code, l.out, l.log)
	}
}

// freeAddr is an address on which nobody listens.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestListenSaysWhatItCannotDo(t *testing.T) {
	t.Parallel()
	refusing := newStandIn(t, answerJSON(422, `{"title":"Unprocessable Entity","status":422,"errors":[{"pointer":"/url","detail":"is not allowed"}]}`))
	stuck := newStandIn(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			answerJSON(201, `{"id":"ep_1"}`)(w, r)
			return
		}
		answerJSON(503, `{"title":"Unavailable","status":503,"detail":"later"}`)(w, r)
	})
	taken, err := listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"nothing to verify with": {nil, exitFailed, "there is nothing to verify with: give the endpoint's secret by --secret-file"},
		"no secret":              {[]string{"--secret", "hunter2"}, exitFailed, `--secret: the secret has to begin with "whsec_"`},
		"a taken port":           {[]string{"--secret", vectorSecret, "--addr", taken.Addr().String()}, exitFailed, "address already in use"},
		"not let in":             {refusing.args("--tenant", "acme"), exitFailed, "/url: is not allowed (422 unprocessable entity); a server that may not reach this machine"},
		"two answers":            {[]string{"--secret", "x", "--status", "500", "--forward-to", "http://127.0.0.1/"}, exitUsage, "two ways to answer"},
		"no target":              {[]string{"--secret", "x", "--forward-to", "127.0.0.1:3000"}, exitUsage, "is not a URL like http://127.0.0.1:3000/webhooks"},
		"no status":              {[]string{"--secret", "x", "--status", "99"}, exitUsage, "--status has to be 200 to 599"},
		"whose endpoint":         {[]string{"--endpoint", "ep_1"}, exitUsage, "--endpoint needs --tenant"},
		"two sources":            {[]string{"--tenant", "a", "--secret", "x"}, exitUsage, "--tenant has the server say the secrets"},
		"whose types":            {[]string{"--secret", "x", "--event-types", "a"}, exitUsage, "are for an endpoint that is made"},
		"whose time":             {[]string{"--secret", "x", "--timeout", "1s"}, exitUsage, "--timeout is for the app"},
		"whose inbox":            {[]string{"--secret", "x", "--pull"}, exitUsage, "--pull needs --tenant"},
		"fetched and posted":     {[]string{"--tenant", "a", "--pull", "--addr", "127.0.0.1:1"}, exitUsage, "do not go with --pull"},
		"whose lease":            {[]string{"--tenant", "a", "--lease", "1s"}, exitUsage, "--lease goes with --pull"},
		"once and twice":         {[]string{"--secret", "x", "--once", "--count", "2"}, exitUsage, "two ways to say one thing"},
		"fewer than none":        {[]string{"--secret", "x", "--fail-first", "-1"}, exitUsage, "may not be negative"},
	} {
		got := cli(t.Context(), nil, "", append([]string{"listen"}, c.args...)...)
		if got.code != c.code || !strings.Contains(got.errout, c.says) || strings.Contains(got.errout, "hunter2") || got.out != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	l := goCLI(t, nil, stuck.args("listen", "--tenant", "acme")...)
	l.log.await(t, listening)
	if code := l.stop(t); code != exitFailed || !strings.Contains(l.log.String(), "delete the endpoint (`postrider endpoints delete ep_1 --tenant acme` does): later (503") {
		t.Errorf("an endpoint that stays: exit %d, %s", code, l.log)
	}
}
