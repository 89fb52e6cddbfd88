package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// fetch makes a call to a server's API, with the admin's key, and reads the answer.
func fetch(ctx context.Context, t *testing.T, env []string, method, path, body string) (int, string) {
	t.Helper()
	base := strings.TrimPrefix(env[0], "POSTRIDER_URL=")
	req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	req.Header.Set("Authorization", "Bearer "+adminKey)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(text)
}

// A process that only takes requests gives away what it accepts, without any dispatcher. What waits is woken at once, what is fetched
// by somebody who dies is there for the next, and a stop waits for nobody who waits.
func TestServeGivesAwayWhatIsFetched(t *testing.T) {
	t.Parallel()
	server := goCLI(t, serverEnv(t), "serve", "--roles", "api")
	env := clientEnv(t, server)
	must(t, env, "tenants", "create", "Acme", "--uid", "acme")
	made := must(t, env, "endpoints", "create", "--kind", "pull", "--tenant", "acme", "--uid", "inbox")
	if !strings.Contains(made, "pull: fetched by its owner") || !strings.Contains(made, "whsec_") || strings.Contains(made, "retry schedule") {
		t.Errorf("it was made as\n%s", made)
	}
	if list := must(t, env, "endpoints", "list", "--tenant", "acme"); !strings.Contains(list, "pull: fetched by its owner") {
		t.Errorf("the list:\n%s", list)
	}
	const inbox = "/v1/tenants/acme/endpoints/inbox"
	type answer struct {
		status int
		text   string
	}
	answers := make(chan answer, 1)
	poll := func(ctx context.Context, query string) {
		status, text := fetch(ctx, t, env, http.MethodGet, inbox+"/poll"+query, "")
		answers <- answer{status, text}
	}
	dying, die := context.WithCancel(t.Context())
	go poll(dying, "?wait=30s")
	die()
	<-answers

	go poll(t.Context(), "?wait=30s&lease=1s")
	must(t, env, "events", "send", "--tenant", "acme", "--type", "order.paid", "--data", `{"a":1}`)
	first := <-answers
	go poll(t.Context(), "?wait=30s") // what the first does not acknowledge
	second := <-answers
	var got struct {
		Data []struct {
			Token   string `json:"token"`
			Attempt int    `json:"attempt"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(second.text), &got); err != nil || first.status != 200 || len(got.Data) != 1 || got.Data[0].Attempt != 2 {
		t.Fatalf("first %+v, then %+v, %v", first, second, err)
	}
	if status, text := fetch(t.Context(), t, env, http.MethodPost, inbox+"/ack", `{"tokens":["`+got.Data[0].Token+`"]}`); status != 200 || !strings.Contains(text, `"acknowledged":1`) {
		t.Errorf("acknowledged: %d %s", status, text)
	}
	if list := must(t, env, "deliveries", "list", "--state", "succeeded"); !strings.Contains(list, "order.paid") {
		t.Errorf("the deliveries:\n%s", list)
	}
	go poll(t.Context(), "?wait=30s")
	begun := time.Now()
	if code := server.stop(t); code != exitDone {
		t.Errorf("exit %d:\n%s", code, server.log)
	}
	if last := <-answers; last.status == 200 && !strings.Contains(last.text, `"data":[]`) {
		t.Errorf("at the stop a poll came back with %+v", last)
	}
	if strings.Contains(server.log.String(), "requests cut off") {
		t.Errorf("the stop took %v:\n%s", time.Since(begun), server.log)
	}
}

func TestKindsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	for args, says := range map[string]string{
		"endpoints create --tenant a":                                  "URL is missing",
		"endpoints create --tenant a --kind push":                      "URL is missing",
		"endpoints create https://x.test --tenant a --kind pull":       "one argument too many",
		"endpoints create https://x.test --tenant a --kind sideways":   `--kind: "sideways" is none of push`,
		"endpoints create https://x.test https://y.test --tenant a":    "one argument too many",
		"endpoints update ep_x --tenant a --kind pull --description d": "--kind",
	} {
		if got := cli(t.Context(), nil, "", strings.Fields(args)...); got.code != exitUsage || !strings.Contains(got.errout, says) {
			t.Errorf("%s: exit %d, %s", args, got.code, got.errout)
		}
	}
}
