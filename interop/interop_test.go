//go:build interop

package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/postrider/postrider/signer"
)

// result is one line from verify.mjs.
type result struct {
	Name     string `json:"name"`
	Verifier string `json:"verifier"`
	Verdict  string `json:"verdict"`
	Detail   string `json:"detail"`
}

// TestReceiversLibraries signs messages of every scheme, tampers with some, and has receivers' libraries say which are
// good. Each message must be judged by each library that it names, each library must have taken one and refused one.
func TestReceiversLibraries(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var messages []message
	for _, scheme := range signer.Schemes() {
		for name := range bodies {
			messages = append(messages, cases(t, scheme, name, "", now)...)
		}
	}
	messages = append(messages, cases(t, signer.Stripe, "json", "Stripe-Signature", now)...)
	for i := range messages { // one name may stand for several, such as stripe's two headers
		messages[i].Name = fmt.Sprintf("%03d %s", i, messages[i].Name)
	}

	verdicts := judge(t, messages)
	judged := map[string]bool{} // "svix accept", …: what each library was seen to do, rightly
	for _, m := range messages {
		t.Run(m.Name, func(t *testing.T) {
			for _, verifier := range m.Verifiers {
				got, ok := verdicts[[2]string{m.Name, verifier}]
				if !ok || got.Verdict != m.Expect {
					t.Errorf("%s: %q %s, want %s", verifier, got.Verdict, got.Detail, m.Expect)
					continue
				}
				judged[verifier+" "+got.Verdict] = true
			}
		})
	}
	for _, verifier := range []string{
		clockless, "standardwebhooks", "svix", "stripe.verifyHeader", "stripe.constructEvent", "octokit",
	} {
		if !judged[verifier+" "+accept] || !judged[verifier+" "+refuse] {
			t.Errorf("%s did not take one message and refuse another", verifier)
		}
	}
}

// judge runs verify.mjs over the messages. Without Node.js or the libraries it fails the test.
func judge(t *testing.T, messages []message) map[[2]string]result {
	t.Helper()
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, m := range messages {
		if err := encoder.Encode(m); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var complaints bytes.Buffer
	node := exec.CommandContext(ctx, "node", "verify.mjs")
	node.Stdin, node.Stderr = &lines, &complaints
	output, err := node.Output()
	if err != nil {
		t.Errorf("node verify.mjs (scripts/interop fetches its libraries): %v\n%s", err, complaints.String())
	}
	t.Logf("node verify.mjs: %s", bytes.TrimSpace(complaints.Bytes()))

	verdicts := make(map[[2]string]result)
	decoder := json.NewDecoder(bytes.NewReader(output))
	for decoder.More() {
		var r result
		if err := decoder.Decode(&r); err != nil {
			t.Fatalf("node verify.mjs printed what is not JSON: %v", err)
		}
		verdicts[[2]string{r.Name, r.Verifier}] = r
	}
	return verdicts
}
