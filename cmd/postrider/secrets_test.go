package main

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/internal/seal"
)

// nextKey is another key than testKey.
const nextKey = "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI="

func keyName(t *testing.T, encoded string) string {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	box, err := seal.New([][]byte{key})
	if err != nil {
		t.Fatal(err)
	}
	return box.KeyIDs()[0]
}

// sealedEnv is the environment of commands that work on the test's database with some keys.
func sealedEnv(t *testing.T, keys ...string) []string {
	t.Helper()
	return []string{"POSTRIDER_DATABASE_URL=" + pgtest.URL(t), "POSTRIDER_SECRETS_KEYS=" + strings.Join(keys, ",")}
}

// withEndpoint runs a server under testKey for as long as it takes to make an endpoint with a static header.
func withEndpoint(t *testing.T) (client []string, server *live, endpointID string) {
	t.Helper()
	server = goCLI(t, serverEnv(t), "serve")
	client = clientEnv(t, server)
	must(t, client, "tenants", "create", "Acme", "--uid", "acme")
	var e endpoint
	created := must(t, client, "endpoints", "create", "https://example.com/", "--tenant", "acme", "--header", "X-Token: value", "--json")
	if err := json.Unmarshal([]byte(created), &e); err != nil || e.ID == "" {
		t.Fatalf("%s: %v", created, err)
	}
	return client, server, e.ID
}

// Whatever a process is for, it does not start when something is encrypted under a key that it lacks, and says so in one line.
func TestNothingStartsWithoutAKeyThatIsInUse(t *testing.T) {
	t.Parallel()
	_, server, _ := withEndpoint(t)
	if code := server.stop(t); code != exitDone {
		t.Fatalf("exit %d:\n%s", code, server.log)
	}
	env := serverEnv(t, "POSTRIDER_SECRETS_KEYS="+nextKey, "POSTRIDER_LOG_LEVEL=error")
	for _, line := range []string{
		"serve", "serve --roles api", "serve --roles dispatcher", "serve --roles scheduler", "secrets rotate", "secrets rotate --dry-run",
	} {
		got := cli(t.Context(), env, "", strings.Fields(line)...)
		if got.code != exitFailed || got.out != "" || strings.Count(got.errout, "\n") != 1 ||
			!strings.Contains(got.errout, "not among secrets.keys: "+keyName(t, testKey)+";") {
			t.Errorf("%s: exit %d, %s%s", line, got.code, got.out, got.errout)
		}
	}
	both := goCLI(t, serverEnv(t, "POSTRIDER_SECRETS_KEYS="+nextKey+","+testKey), "serve")
	clientEnv(t, both)
}

func TestDevDoesNotStartWithAnotherKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { // PostgreSQL runs as another user when we are root
		t.Fatal(err)
	}
	env := []string{"POSTRIDER_DATABASE_MAX_CONNS=6", "POSTRIDER_HTTP_ADDR=127.0.0.1:0"}
	first := goCLI(t, env, "dev", "--dir", dir)
	first.out.await(t, verified)
	first.stop(t)
	got := cli(t.Context(), append(env, "POSTRIDER_SECRETS_KEYS="+nextKey), "", "dev", "--dir", dir)
	if got.code != exitFailed || !strings.Contains(got.errout, "not among secrets.keys") || strings.Count(got.errout, "\n") != 1 {
		t.Errorf("exit %d:\n%s%s", got.code, got.out, got.errout)
	}
}

// The whole procedure by hand, while a server runs on both keys.
func TestSecretsRotate(t *testing.T) {
	t.Parallel()
	client, server, endpointID := withEndpoint(t)
	server.stop(t)
	oldName, newName := keyName(t, testKey), keyName(t, nextKey)
	env := sealedEnv(t, nextKey, testKey)
	server = goCLI(t, serverEnv(t, "POSTRIDER_SECRETS_KEYS="+nextKey+","+testKey), "serve")
	client = append(clientEnv(t, server), client[1:]...)
	secret := must(t, client, "endpoints", "secret", endpointID, "--tenant", "acme")

	if out := must(t, env, "secrets", "status"); !strings.Contains(out, newName+"  0 ") || !strings.Contains(out, oldName+"  2 ") {
		t.Errorf("the status is\n%s", out)
	}
	if out := must(t, env, "secrets", "rotate", "--dry-run"); !strings.Contains(out, "2 values would be re-encrypted under "+newName) {
		t.Errorf("a dry run says\n%s", out)
	}
	rotated := func() (r rotation) {
		t.Helper()
		if err := json.Unmarshal([]byte(must(t, env, "secrets", "rotate", "--json")), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	for run, values := range []int{2, 0} { // the second time there is nothing to do
		r := rotated()
		if r.Values != values || r.Left != 0 || r.First != newName || len(r.Unused) != 1 || r.Unused[0] != oldName {
			t.Errorf("run %d: %+v", run+1, r)
		}
	}
	if out := must(t, env, "secrets", "rotate"); !strings.Contains(out, "may be taken out of secrets.keys: "+oldName+"\n") {
		t.Errorf("it says\n%s", out)
	}
	if again := must(t, client, "endpoints", "secret", endpointID, "--tenant", "acme"); again != secret {
		t.Errorf("the secret was %s and is %s", secret, again)
	}
	server.stop(t)
	clientEnv(t, goCLI(t, serverEnv(t, "POSTRIDER_SECRETS_KEYS="+nextKey), "serve")) // the old key is not needed
}

func TestSecretsGiveUp(t *testing.T) {
	t.Parallel()
	_, server, endpointID := withEndpoint(t)
	server.stop(t)
	lost := keyName(t, testKey)
	env := sealedEnv(t, nextKey)
	if got := cli(t.Context(), sealedEnv(t, testKey), "", "secrets", "give-up", lost); got.code != exitFailed || !strings.Contains(got.errout, "it is not lost") {
		t.Errorf("a key that is there: exit %d, %s", got.code, got.errout)
	}
	if out := must(t, env, "secrets", "give-up", lost, "--dry-run"); !strings.Contains(out, endpointID) {
		t.Errorf("a dry run prints\n%s", out)
	}
	if got := cli(t.Context(), env, "", "secrets", "rotate"); got.code != exitFailed {
		t.Error("the dry run gave it up")
	}
	if out := must(t, env, "secrets", "give-up", lost, "--json"); !strings.Contains(out, endpointID) || !strings.Contains(out, `"given_up": true`) {
		t.Errorf("it prints\n%s", out)
	}
	if out := must(t, env, "secrets", "status"); !strings.Contains(out, "no: given up") {
		t.Errorf("the status is\n%s", out)
	}
	clientEnv(t, goCLI(t, serverEnv(t, "POSTRIDER_SECRETS_KEYS="+nextKey), "serve"))
	if out := must(t, []string{"POSTRIDER_DATABASE_URL=" + pgtest.URL(t)}, "secrets", "status"); !strings.Contains(out, lost) {
		t.Errorf("without any key the status is\n%s", out)
	}
}
