package examples_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/pgtest"
)

// The one command that the READMEs name starts everything, shows what came of it, and leaves nothing running.
func TestRun(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "./run")
	cmd.Env = append(cmd.Environ(), "EXAMPLES_DATABASE_URL="+pgtest.URL(t))
	out, err := cmd.CombinedOutput()
	for _, part := range []string{"== producer-node", "== reservation-expiry-node", "R-1 is free again", "== orders-go", `"event":"evt_`, "order.paid", "succeeded"} {
		if err != nil || !strings.Contains(string(out), part) {
			t.Fatalf("no %s: %v\n%s", part, err, out)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "./run", "nothing").CombinedOutput(); err == nil {
		t.Errorf("%s", out)
	}
}
