//go:build interop

package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/pgtest"
)

const adminKey = "an-admin-key-for-the-tests-with-cloudevents"

// TestCloudEventsSDK has the CloudEvents SDK send to a Postrider of its own, and read what that delivers.
func TestCloudEventsSDK(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	url := serve(ctx, t)
	var complaints bytes.Buffer
	node := exec.CommandContext(ctx, "node", "cloudevents.mjs", url, adminKey)
	node.Stderr = &complaints
	output, err := node.Output()
	if err != nil {
		t.Errorf("node cloudevents.mjs (scripts/interop fetches its libraries): %v\n%s", err, complaints.String())
	}
	checks := 0
	decoder := json.NewDecoder(bytes.NewReader(output))
	for decoder.More() {
		var r result
		if err := decoder.Decode(&r); err != nil {
			t.Fatalf("node cloudevents.mjs printed what is not JSON: %v", err)
		}
		if checks++; r.Verdict != accept {
			t.Errorf("%s: %s %s", r.Name, r.Verdict, r.Detail)
		}
	}
	if checks != 14 {
		t.Errorf("%d checks were made", checks)
	}
}

// serve builds the program, runs it on the test's database until the test ends, and gives its URL.
func serve(ctx context.Context, t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "postrider")
	if said, err := exec.CommandContext(ctx, "go", "build", "-o", program, "../cmd/postrider").CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, said)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, "serve") // it is asked to stop, and not killed
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "POSTRIDER_DATABASE_URL=" + pgtest.URL(t), "POSTRIDER_DATABASE_MIGRATE_ON_START=true",
		"POSTRIDER_HTTP_ADDR=127.0.0.1:0", "POSTRIDER_SECRETS_KEYS=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
		"POSTRIDER_BOOTSTRAP_ADMIN_KEY=" + adminKey, "POSTRIDER_DELIVERY_ALLOW_HTTP=true", "POSTRIDER_DELIVERY_ALLOW_NETWORKS=127.0.0.0/8",
	}
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	addr, log := make(chan string, 1), &strings.Builder{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			log.Write(append(lines.Bytes(), '\n'))
			var line struct{ Addr, Message string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "listening" {
				addr <- line.Addr
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("serve ended with %v\n%s", err, log)
		}
	})
	select {
	case listening := <-addr:
		return "http://" + listening
	case <-ended:
		t.Fatalf("serve does not listen\n%s", log)
	case <-ctx.Done():
		t.Fatal("serve does not listen")
	}
	return ""
}
