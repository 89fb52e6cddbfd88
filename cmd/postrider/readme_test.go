package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// printed gives the code block of the README that follows a comment.
func printed(t *testing.T, name string) string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "<!-- develop: "+name+" -->\n```")
	_, code, _ := strings.Cut(rest, "\n")
	code, _, closed := strings.Cut(code, "\n```\n")
	if !found || !closed {
		t.Fatalf("the README has no code block %s", name)
	}
	return code + "\n"
}

// script is a printed snippet in a shell that has the program in its path, in a folder of its own.
func script(t *testing.T, env []string, code string) *process {
	t.Helper()
	dir := t.TempDir()
	program, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(dir, "postrider")); err != nil {
		t.Fatal(err)
	}
	p := &process{exec.Command("bash", "-euc", code), newWatched(), make(chan error, 1)}
	p.Dir, p.Stdout, p.Stderr = dir, p.out, p.out
	p.Env = append([]string{mainVariable + "=1", "PATH=" + dir + ":" + os.Getenv("PATH")}, env...)
	p.begin(t)
	return p
}

// What the README says of developing is run as it is printed.
func TestTheReadmesCommandsForDevelopersWork(t *testing.T) {
	t.Parallel()
	env := clientEnv(t, goCLI(t, serverEnv(t), "serve"))
	must(t, env, "tenants", "create", "Demo", "--uid", "demo")

	listen := script(t, env, printed(t, "listen"))
	listen.out.await(t, listening)
	trigger := script(t, env, printed(t, "trigger"))
	if code := trigger.exit(t); code != exitDone || !strings.Contains(trigger.out.String(), "attempt 2 succeeded 204; succeeded") {
		t.Errorf("trigger: exit %d\n%s", code, trigger.out)
	}
	if code := listen.exit(t); code != exitDone || strings.Count(listen.out.String(), " verified order.paid") != 2 {
		t.Errorf("listen: exit %d\n%s", code, listen.out)
	}

	got := make(chan string, 1)
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.URL.Path + " " + string(body)
	}))
	t.Cleanup(app.Close)
	pull := script(t, env, strings.ReplaceAll(printed(t, "pull"), "http://127.0.0.1:3000", app.URL))
	pull.out.await(t, `(?m)^(fetching) from`)
	must(t, env, "events", "send", "--tenant", "demo", "--type", "order.paid", "--data", `{"n": 1}`)
	if code := pull.exit(t); code != exitDone || !strings.Contains(pull.out.String(), "it is acknowledged") {
		t.Errorf("pull: exit %d\n%s", code, pull.out)
	}
	if body := <-got; body != `/webhooks {"n": 1}` {
		t.Errorf("the app got %s", body)
	}

	verify := script(t, nil, printed(t, "verify"))
	if code := verify.exit(t); code != exitFailed || !strings.HasPrefix(verify.out.String(), printed(t, "verdict")) {
		t.Errorf("verify: exit %d\n%s", code, verify.out)
	}
}
