package docs_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/signer"
)

// delivery is a request as a receiver gets it, and what it has to answer.
type delivery struct {
	name string
	want int

	Key     string            `json:"key"` // the endpoint's secret
	Headers map[string]string `json:"headers"`
	Body    []byte            `json:"body"` // encoding/json writes base64
}

const (
	taken   = 204
	refused = 400
)

// deliveries are what a receiver has to take and to refuse. Bodies that are no text are left out where a library takes
// text alone.
func deliveries(t *testing.T, binary bool) []delivery {
	t.Helper()
	now := time.Now()
	body := []byte("{ \"b\": 1,\n  \"a\": [\"<R&D>\", \"naïve 日本\"], \"n\": 1E+2 }")
	older, newer, stranger := secret(t), secret(t), secret(t)
	sent := func(name string, want int, change func(*delivery)) delivery {
		d := delivery{name: name, want: want, Key: older.Reveal(), Body: body, Headers: signed(t, now, body, older)}
		change(&d)
		return d
	}
	all := []delivery{
		sent("as sent", taken, func(*delivery) {}),
		sent("no body", taken, func(d *delivery) { d.Body, d.Headers = []byte{}, signed(t, now, nil, older) }),
		sent("rotating, old secret", taken, func(d *delivery) { d.Headers = signed(t, now, body, newer, older) }),
		sent("rotating, new secret", taken, func(d *delivery) {
			d.Headers, d.Key = signed(t, now, body, newer, older), newer.Reveal()
		}),
		sent("body changed", refused, func(d *delivery) { d.Body = append(bytes.Clone(body), ' ') }),
		sent("stranger's secret", refused, func(d *delivery) { d.Key = stranger.Reveal() }),
		sent("another event's id", refused, func(d *delivery) { d.Headers[signer.HeaderID] = "evt_2" }),
		sent("no signature", refused, func(d *delivery) { delete(d.Headers, signer.HeaderSignature) }),
		sent("no timestamp", refused, func(d *delivery) { delete(d.Headers, signer.HeaderTimestamp) }),
		sent("a word for a timestamp", refused, func(d *delivery) { d.Headers[signer.HeaderTimestamp] = "now" }),
		sent("signed an hour ago", refused, func(d *delivery) { d.Headers = signed(t, now.Add(-time.Hour), body, older) }),
		sent("signed in an hour", refused, func(d *delivery) { d.Headers = signed(t, now.Add(time.Hour), body, older) }),
	}
	if binary {
		bytes := []byte{0x00, 0xff, 0xfe, '\r', '\n', 0x80, '.', 0xc3}
		all = append(all, sent("no text", taken, func(d *delivery) { d.Body, d.Headers = bytes, signed(t, now, bytes, older) }))
	}
	return all
}

func secret(t *testing.T) signer.Secret {
	t.Helper()
	s, err := signer.NewSecret(signer.Standard, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func signed(t *testing.T, at time.Time, body []byte, secrets ...signer.Secret) map[string]string {
	t.Helper()
	list, err := signer.Sign(signer.Standard, "", secrets, signer.Message{
		EventID: "evt_1", DeliveryID: "dlv_1", EventType: "order.paid", Timestamp: at.Unix(), Body: body,
	})
	if err != nil {
		t.Fatal(err)
	}
	headers := map[string]string{}
	for _, h := range list {
		headers[h.Name] = h.Value
	}
	return headers
}

// judge has a program answer deliveries, one JSON object a line in, one status a line out, and compares.
func judge(t *testing.T, ds []delivery, dir, program string, args ...string) {
	t.Helper()
	var in, complaints bytes.Buffer
	encoder := json.NewEncoder(&in)
	for _, d := range ds {
		if err := encoder.Encode(d); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, &in, &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, complaints.String())
	}
	statuses := strings.Fields(string(out))
	if len(statuses) != len(ds) {
		t.Fatalf("%d answers to %d deliveries: %q", len(statuses), len(ds), statuses)
	}
	for i, d := range ds {
		if statuses[i] != strconv.Itoa(d.want) {
			t.Errorf("%s: answered %s, want %d", d.name, statuses[i], d.want)
		}
	}
}

// place writes files, texts by their names, into a new folder.
func place(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The Go receiver is built in a module that has our requirements, so that it needs nothing which is not here.
func TestGoReceiver(t *testing.T) {
	t.Parallel()
	dir := place(t, map[string]string{
		"go.mod": read(t, "go.mod"), "go.sum": read(t, "go.sum"), "main.go": read(t, "docs/testdata/harness.go"),
		"receiver/receiver.go": snippet(t, "verify: go"),
	})
	judge(t, deliveries(t, true), dir, "go", "run", ".")
}

// shop builds a program of somebody's that imports our client, in a module that has our requirements, so that it needs nothing
// which is not here.
func shop(t *testing.T, files map[string]string) (program string) {
	t.Helper()
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	files["go.mod"] = strings.Replace(read(t, "go.mod"), "module github.com/postrider/postrider\n", "module example.com/shop\n", 1) +
		"\nrequire github.com/postrider/postrider v0.0.0\n\nreplace github.com/postrider/postrider => " + here + "\n"
	files["go.sum"] = read(t, "go.sum")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-mod=mod", "-o", "shop", ".")
	build.Dir, build.Env = place(t, files), append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(build.Dir, "shop")
}
