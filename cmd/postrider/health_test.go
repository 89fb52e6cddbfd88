package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHealthAsksTheServerOfTheConfiguration(t *testing.T) {
	t.Parallel()
	for _, roles := range []string{"api", "dispatcher"} {
		t.Run(roles, func(t *testing.T) {
			t.Parallel()
			env := serverEnv(t)
			server := goCLI(t, env, "serve", "--roles", roles)
			addr := server.log.await(t, `"addr":"([^"]+)","time":"[^"]+","message":"(?:health\.)?listening"`)
			_, port, err := net.SplitHostPort(addr)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "postrider.yaml")
			if err := os.WriteFile(file, []byte("http:\n  addr: "+addr+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			// A proxy of the environment is not for what is asked of this machine.
			own := []string{"POSTRIDER_HTTP_ADDR=" + addr, "HTTP_PROXY=http://127.0.0.1:1"}
			for _, c := range []struct {
				env  []string
				args string
				want string
			}{
				{own, "health", "ok: http://" + addr + "/readyz\n"},
				{own, "health --live", "ok: http://" + addr + "/livez\n"},
				{nil, "health --config " + file, "ok: http://" + addr + "/readyz\n"},
				{nil, "health --http.addr :" + port, "ok: http://localhost:" + port + "/readyz\n"},
				{nil, "health --http.addr 0.0.0.0:" + port, "ok: http://0.0.0.0:" + port + "/readyz\n"},
				{[]string{"POSTRIDER_NO_SUCH_KEY=1"}, "health --url http://" + addr + "/v1", "ok: http://" + addr + "/readyz\n"},
			} {
				if got := must(t, c.env, strings.Fields(c.args)...); got != c.want {
					t.Errorf("%s: %q, want %q", c.args, got, c.want)
				}
			}
			server.stop(t)
			if got := cli(t.Context(), own, "", "health"); got.code != exitFailed || got.out != "" ||
				strings.Count(got.errout, "\n") != 1 || !strings.Contains(got.errout, "connection refused") {
				t.Errorf("it is gone: exit %d, %s%s", got.code, got.out, got.errout)
			}
		})
	}
}

func TestHealthTakesNothingButAYes(t *testing.T) {
	t.Parallel()
	answers := map[string]struct {
		status int
		body   string
		says   string
	}{
		"/away/readyz":     {503, `{"title": "Service Unavailable", "detail": "the database does not answer"}`, "answers 503 Service Unavailable: the database does not answer\n"},
		"/other/readyz":    {404, "<html>", "answers 404 Not Found\n"},
		"/redirect/readyz": {302, "", "answers 302 Found\n"},
	}
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		a, known := answers[r.URL.Path]
		if !known {
			t.Errorf("asked for %s", r.URL)
		}
		rw.Header().Set("Location", "/elsewhere")
		rw.WriteHeader(a.status)
		_, _ = rw.Write([]byte(a.body))
	}))
	t.Cleanup(s.Close)
	for path, a := range answers {
		got := cli(t.Context(), nil, "", "health", "--url", s.URL+strings.TrimSuffix(path, "/readyz"))
		if got.code != exitFailed || got.out != "" || got.errout != "postrider: "+s.URL+path+" "+a.says {
			t.Errorf("%s: exit %d, %s%s", path, got.code, got.out, got.errout)
		}
	}
	for _, c := range []struct {
		line string
		code int
		says string
	}{
		{"health --http.addr 127.0.0.1:0", exitFailed, "http.addr has port 0"},
		{"health --http.addr nowhere", exitUsage, "http.addr"},
		{"health --url nowhere", exitUsage, "--url"},
	} {
		if got := cli(t.Context(), nil, "", strings.Fields(c.line)...); got.code != c.code || !strings.Contains(got.errout, c.says) {
			t.Errorf("%s: exit %d, %s", c.line, got.code, got.errout)
		}
	}
}
