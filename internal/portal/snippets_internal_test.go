package portal

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// request is what a snippet is asked about.
type request struct {
	Name    string            `json:"name"`
	Headers map[string]string `json:"headers"` // names in lower case
	Body    string            `json:"body"`
	Secret  string            `json:"secret"`
	good    bool
}

// runners put what is shown beside a few lines that ask it about the requests on standard input, and print what it says.
var runners = []struct {
	language, program, file, ask string
	args                         []string
}{
	{"Go", "go", "webhooks/verify.go", "main.go", []string{"run", "."}},
	{"Node.js", "node", "verify.mjs", "ask.mjs", []string{"ask.mjs"}},
	{"Python", "python3", "snippet.py", "ask.py", []string{"ask.py"}},
	{"PHP", "php", "verify.php", "ask.php", []string{"ask.php"}},
	{"Ruby", "ruby", "verify.rb", "ask.rb", []string{"ask.rb"}},
}

var asks = map[string]string{
	"main.go": `package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"snippet/webhooks"
)

func main() {
	var requests []struct {
		Headers      map[string]string
		Body, Secret string
	}
	if err := json.NewDecoder(os.Stdin).Decode(&requests); err != nil {
		panic(err)
	}
	for _, r := range requests {
		h := http.Header{}
		for name, value := range r.Headers {
			h.Set(name, value)
		}
		fmt.Println(webhooks.Verify(h, []byte(r.Body), r.Secret) == nil)
	}
}
`,
	"ask.mjs": `import { readFileSync } from "node:fs";
import { verify } from "./verify.mjs";
for (const r of JSON.parse(readFileSync(0, "utf8"))) console.log(verify(r.headers, Buffer.from(r.body), r.secret));
`,
	"ask.py": `import json, sys
from email.message import Message
from snippet import verify
for r in json.load(sys.stdin):
    headers = Message()
    for name, value in r["headers"].items():
        headers[name.title()] = value
    print("true" if verify(headers, r["body"].encode(), r["secret"]) else "false")
`,
	"ask.php": `<?php
require 'verify.php';
foreach (json_decode(file_get_contents('php://stdin'), true) as $r) {
    echo verify($r['headers'], $r['body'], $r['secret']) ? "true\n" : "false\n";
}
`,
	"ask.rb": `require "json"
require_relative "verify"
JSON.parse($stdin.read).each { |r| puts(verify(r["headers"], r["body"], r["secret"]) ? "true" : "false") }
`,
}

// What is shown to be copied takes what we sign, in each language and scheme, and nothing else.
func TestSnippetsWorkAsTheyAreShown(t *testing.T) {
	t.Parallel()
	for _, run := range runners {
		program, err := exec.LookPath(run.program)
		if err != nil {
			if allLanguages {
				t.Errorf("%s is not here", run.program)
			}
			continue
		}
		for _, scheme := range signer.Schemes() {
			t.Run(run.language+"/"+string(scheme), func(t *testing.T) {
				t.Parallel()
				e := subscriptions.Endpoint{Scheme: scheme}
				if scheme == signer.Stripe {
					e.SignatureHeader = "X-Acme-Signature"
				}
				requests := requestsOf(t, scheme, e.SignatureHeader)
				dir := t.TempDir()
				write(t, filepath.Join(dir, run.file), shownIn(t, e, run.language))
				write(t, filepath.Join(dir, run.ask), asks[run.ask])
				write(t, filepath.Join(dir, "go.mod"), "module snippet\n\ngo 1.22\n")
				input, err := json.Marshal(requests)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				cmd := exec.CommandContext(ctx, program, run.args...)
				cmd.Dir, cmd.Stdin, cmd.Env = dir, bytes.NewReader(input), append(os.Environ(), "GOWORK=off", "GOFLAGS=")
				out, err := cmd.Output()
				if err != nil {
					if lacksEd25519(err) && !allLanguages {
						t.Skip("this machine's library for Ed25519 is not here")
					}
					t.Fatalf("%v: %s", err, stderrOf(err))
				}
				said := strings.Fields(string(out))
				if len(said) != len(requests) {
					t.Fatalf("%d answers to %d requests: %s", len(said), len(requests), out)
				}
				for i, r := range requests {
					if said[i] != strconv.FormatBool(r.good) {
						t.Errorf("%s: %s", r.Name, said[i])
					}
				}
			})
		}
	}
}

func shownIn(t *testing.T, e subscriptions.Endpoint, language string) string {
	t.Helper()
	for _, s := range snippetsOf(e) {
		if s.Language == language {
			if strings.Contains(s.Text, headerPlace) {
				t.Errorf("the header's place is empty: %s", s.Text)
			}
			return s.Text
		}
	}
	t.Fatalf("there is none in %s", language)
	return ""
}

// requestsOf signs some, as they go out, and spoils others.
func requestsOf(t *testing.T, scheme signer.Scheme, header string) []request {
	t.Helper()
	now := time.Now()
	one, other := newSecret(t, scheme), newSecret(t, scheme)
	body := `{"order": "A-1001", "name": "Grüße", "html": "<&>", "big": 12345678901234567890}` + "\n"
	sign := func(at time.Time, secrets ...signer.Secret) map[string]string {
		signed, err := signer.Sign(scheme, header, secrets, signer.Message{
			EventID: "evt_1", DeliveryID: "dlv_1", EventType: "order.paid", Timestamp: at.Unix(), Body: []byte(body),
		})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, h := range signed {
			out[strings.ToLower(h.Name)] = h.Value
		}
		return out
	}
	good := sign(now, one)
	bare := map[string]string{"content-type": "application/json"}
	garbled := map[string]string{}
	for name := range good {
		garbled[name] = "v1,=t,v1a,===,v1=,;"
	}
	requests := []request{
		{"as it is sent", good, body, verifier(one), true},
		{"with another body", good, body + " ", verifier(one), false},
		{"with another secret", good, body, verifier(other), false},
		{"without headers", bare, body, verifier(one), false},
		{"with garbled headers", garbled, body, verifier(one), false},
	}
	if scheme != signer.GitHub { // which signs no time
		requests = append(requests,
			request{"sent ten minutes ago", sign(now.Add(-10*time.Minute), one), body, verifier(one), false},
			request{"sent in ten minutes", sign(now.Add(10*time.Minute), one), body, verifier(one), false})
	}
	if scheme.SupportsOverlap() {
		both := sign(now, one, other)
		requests = append(requests,
			request{"in a rotation, the new secret", both, body, verifier(one), true},
			request{"in a rotation, the old secret", both, body, verifier(other), true})
	}
	return requests
}

func newSecret(t *testing.T, scheme signer.Scheme) signer.Secret {
	t.Helper()
	s, err := signer.NewSecret(scheme, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// verifier is what a receiver verifies with, as the page shows it.
func verifier(s signer.Secret) string { return cmp.Or(s.PublicKey(), s.Reveal()) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func stderrOf(err error) string {
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return string(failed.Stderr)
	}
	return ""
}

// lacksEd25519 reports whether a program gave up over a package that is not a part of its language.
func lacksEd25519(err error) bool {
	text := stderrOf(err)
	return strings.Contains(text, "No module named 'cryptography'") || strings.Contains(text, "sodium_crypto_sign_verify_detached")
}
