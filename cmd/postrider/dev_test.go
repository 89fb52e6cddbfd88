package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/pgcluster"
)

// verified is the receiver's line about the demo's event.
const verified = `(?m)^receiver: verified (evt_\w+) \(order\.paid, attempt 1\)$`

// TestDevShowsADeliveryAgainAndAgain runs the demo twice in one folder: the second run has to find what the first left.
func TestDevShowsADeliveryAgainAndAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { // PostgreSQL runs as another user when we are root
		t.Fatal(err)
	}
	env := []string{"POSTRIDER_DATABASE_MAX_CONNS=6", "POSTRIDER_HTTP_ADDR=127.0.0.1:0"}
	first := runDemo(t, env, dir)
	second := runDemo(t, env, dir)
	if first.event == second.event {
		t.Errorf("both runs show %s", first.event)
	}
	if first.state.Key != second.state.Key || first.state.ReceiverPort != second.state.ReceiverPort {
		t.Errorf("the second run does not go on from the first: %+v, %+v", first.state, second.state)
	}
	if got := cli(t.Context(), nil, "", "deliveries", "list", "--dir", dir); got.code != exitFailed ||
		!strings.Contains(got.errout, "no API key") {
		t.Errorf("after its end: exit %d, %s", got.code, got.errout)
	}
}

type demoRun struct {
	event string
	state devState
}

func runDemo(t *testing.T, env []string, dir string) demoRun {
	t.Helper()
	dev := goCLI(t, env, "dev", "--dir", dir)
	dev.out.await(t, `(?m)^ready$`)
	event := dev.out.await(t, verified)
	state, err := readDevState(dir)
	if err != nil || state.URL == "" || dev.out.await(t, `(?m)^api key: (.+)$`) != state.Key {
		t.Fatalf("%+v, %v", state, err)
	}
	if at := dev.out.await(t, `(?m)^console: (http://.+)$`); at != state.URL+"/console/" || !strings.Contains(visit(t, at), "Sign in") {
		t.Errorf("the console is said to be at %s", at)
	}
	link := dev.out.await(t, `(?m)^portal: (http://.+)$`)
	if !strings.HasPrefix(link, state.URL+"/portal/enter?token=") || !strings.Contains(visit(t, link), "Continue") {
		t.Errorf("the portal is said to be at %s", link)
	}
	line := dev.out.await(t, `(?m)^send another: (curl .+)$`)
	if !strings.Contains(line, state.URL+"/v1/tenants/demo/events") {
		t.Errorf("the line to send another: %s", line)
	}
	list := dev.out.await(t, `(?m)^see them all: (.+)$`)
	if list != "bin/postrider deliveries list --dir "+shellQuote(dir) {
		t.Errorf("the line to list: %s", list)
	}
	at := []string{"--dir", dir}
	out := must(t, nil, append(strings.Fields("deliveries list --json"), at...)...)
	if !strings.Contains(out, event) {
		t.Errorf("%s is not in\n%s", event, out)
	}

	// A rotation does not keep the receiver from verifying, also without an overlap.
	must(t, nil, append(strings.Fields("endpoints rotate demo-receiver --tenant demo --overlap 0s"), at...)...)
	must(t, nil, append(strings.Fields("endpoints test demo-receiver --tenant demo --type rotated"), at...)...)
	dev.out.await(t, `(?m)^receiver: verified evt_\w+ \(rotated, attempt 1\)$`)

	// A stranger is told apart.
	resp, err := http.Post(receiverURL(t, at), "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a stranger is answered %d", resp.StatusCode)
	}
	dev.out.await(t, `(?m)^receiver: REFUSED \? \(\?, attempt \?\): a header is missing`)

	// Another one on the same folder is told so, and leaves this one alone.
	if got := cli(t.Context(), env, "", "dev", "--dir", dir); got.code != exitFailed ||
		!strings.Contains(got.errout, pgcluster.ErrInUse.Error()) || strings.Count(got.errout, "\n") != 1 || got.out != "" {
		t.Errorf("a second one: exit %d, %s%s", got.code, got.out, got.errout)
	}
	if code := dev.stop(t); code != exitDone {
		t.Errorf("exit %d:\n%s%s", code, dev.out, dev.log)
	}
	if log := dev.log.String(); log != "" {
		t.Errorf("it complains:\n%s", log)
	}
	return demoRun{event, state}
}

// visit gets a page, where it leads and all.
func visit(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v", url, resp.StatusCode, err)
	}
	return string(body)
}

func receiverURL(t *testing.T, at []string) string {
	t.Helper()
	out := must(t, nil, append(strings.Fields("endpoints show demo-receiver --tenant demo"), at...)...)
	return strings.Fields(lineWith(t, out, "http://127.0.0.1:"))[1]
}
