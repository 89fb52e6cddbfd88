//go:build chaos

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// resources is what a process holds.
type resources struct {
	kilobytes, peak, files, goroutines int
}

// resources asks the system, and the process itself.
func (p *process) resources() (r resources) {
	p.t.Helper()
	dir := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		p.t.Fatal(err)
	}
	r.kilobytes, r.peak = field(p.t, string(status), "VmRSS:"), field(p.t, string(status), "VmHWM:")
	files, err := os.ReadDir(dir + "fd")
	if err != nil {
		p.t.Fatal(err)
	}
	r.files = len(files)
	r.goroutines = field(p.t, string(p.do(http.MethodGet, "/metrics", "", nil).body), "go_goroutines ")
	return r
}

// forgetPeak lets VmHWM begin anew.
func (p *process) forgetPeak() {
	p.t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0); err != nil {
		p.t.Fatal(err)
	}
}

// field reads the number behind a name that begins a line.
func field(t *testing.T, text, name string) int {
	t.Helper()
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

// lagMeter measures how late this machine is with everything at present: nothing can be expected sooner.
func lagMeter(t *testing.T) (worst func() time.Duration) {
	t.Helper()
	var most atomic.Int64
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	go func() {
		const beat = 10 * time.Millisecond
		for {
			began := time.Now()
			select {
			case <-time.After(beat):
				most.Store(max(most.Load(), int64(time.Since(began)-beat)))
			case <-over:
				return
			}
		}
	}()
	return func() time.Duration { return time.Duration(most.Load()) }
}
