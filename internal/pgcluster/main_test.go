package pgcluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// helperDir makes the test binary a process that starts a cluster in that folder, says so and then waits to be killed.
const helperDir = "POSTRIDER_PGCLUSTER_HELPER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperDir); dir != "" {
		os.Exit(helper(dir))
	}
	goleak.VerifyTestMain(m)
}

func helper(dir string) int {
	c, err := Start(context.Background(), Options{Dir: dir, Log: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stdout, c.server.cmd.Process.Pid)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil { // until the test goes away
		return 1
	}
	if err := c.Stop(); err != nil {
		return 1
	}
	return 0
}
