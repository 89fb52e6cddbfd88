package docs_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/pgtest"
)

// What the pages' own server has. The key is one of 32 bytes.
const (
	pagesKey   = "prk_the_admin_of_the_pages"
	sealingKey = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="
	patience   = 2 * time.Minute
)

// call is a request that the server got, and its answer.
type call struct {
	method, path string
	status       int
}

// house is what a page's commands run against: a server in a process of its own, seen through a proxy that writes down what it is
// asked, a receiver, and a database.
type house struct {
	t                  *testing.T
	dir                string
	database           string
	proxy, receiverURL string
	env                []string

	mu     sync.Mutex
	server string // where it listens, host:port
	calls  []call
}

// newHouse builds one. The server is started by start, or by the page itself.
func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir(), database: pgtest.URL(t)}
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(h.dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(h.dir, "bin", "postrider")); err != nil {
		t.Fatal(err)
	}
	h.proxy, h.receiverURL = h.watch(), receiver(t)
	h.env = []string{
		"PATH=" + filepath.Join(h.dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + h.dir, "XDG_STATE_HOME=" + h.dir, "no_proxy=*", "LC_ALL=C.UTF-8",
		"DATABASE_URL=" + h.database, "POSTRIDER_DATABASE_MAX_CONNS=6", "POSTRIDER_HTTP_ADDR=127.0.0.1:0", "POSTRIDER_HTTP_PUBLIC_URL=" + h.proxy,
		"POSTRIDER_BOOTSTRAP_ADMIN_KEY=" + pagesKey, // what a page calls prk_…
		// Receivers are on this machine, by http.
		"POSTRIDER_DELIVERY_ALLOW_HTTP=true", "POSTRIDER_DELIVERY_ALLOW_NETWORKS=127.0.0.0/8",
	}
	return h
}

// start starts the server, and lets commands find it as they find a `postrider dev`: by themselves.
func (h *house) start() {
	h.t.Helper()
	server := exec.Command(filepath.Join(h.dir, "bin", "postrider"), "serve")
	server.Dir = h.dir
	server.Env = append(slices.Clone(h.env), "POSTRIDER_DATABASE_URL="+h.database, "POSTRIDER_SECRETS_KEYS="+sealingKey)
	h.opens(begin(h.t, server))
	h.env = append(h.env, "POSTRIDER_URL="+h.proxy, "POSTRIDER_API_KEY="+pagesKey, "KEY="+pagesKey)
}

// opens waits until a server listens, on whatever port, and leads the proxy to it.
func (h *house) opens(server *terminal) {
	h.t.Helper()
	addr := server.await(h.t, `"addr":"([^"]+)","time":"[^"]+","message":"listening"`)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.server = addr
}

// prepare runs what the page takes for granted.
func (h *house) prepare(script string) {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = h.dir, h.env
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// standIns are what a page writes for what is another thing here.
func (h *house) standIns() [][2]string {
	return [][2]string{
		{"http://127.0.0.1:8080", h.proxy},
		{"https://postrider.example.com", h.proxy},
		{"https://postrider.internal", h.proxy},
		{"https://hooks.example.com", h.receiverURL},
		{"https://hooks.acme.example", h.receiverURL},
		{"http://127.0.0.1:3000", h.receiverURL},
		{"postgres://postrider:…@db.internal:5432/postrider", h.database},
		{"prk_…", pagesKey},
	}
}

// here has a page's text mean what is here; there is the way back.
func (h *house) here(text string) string {
	for _, pair := range h.standIns() {
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	return text
}

func (h *house) there(text string) string {
	for _, pair := range h.standIns() {
		text = strings.ReplaceAll(text, pair[1], pair[0])
	}
	return text
}

// watch starts the proxy.
func (h *house) watch() string {
	transport := &http.Transport{}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			h.mu.Lock()
			defer h.mu.Unlock()
			r.SetURL(&url.URL{Scheme: "http", Host: h.server})
			r.Out.Host = r.In.Host
		},
		ModifyResponse: func(resp *http.Response) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.calls = append(h.calls, call{resp.Request.Method, resp.Request.URL.Path, resp.StatusCode})
			return nil
		},
	})
	h.t.Cleanup(func() {
		proxy.Close()
		transport.CloseIdleConnections()
	})
	return proxy.URL
}

// seen gives what was asked from the nth request on.
func (h *house) seen(from int) []call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls[from:])
}

// receiver takes webhooks. The last part of the path says how it answers.
func receiver(t *testing.T) string {
	t.Helper()
	statuses := map[string]int{"broken": 500, "gone": http.StatusGone, "unauthorized": http.StatusUnauthorized}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, known := statuses[path.Base(r.URL.Path)]; known {
			http.Error(w, "I answer "+http.StatusText(status), status)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(s.Close)
	return s.URL
}
