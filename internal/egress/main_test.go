package egress

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// stdLog catches what the standard logger would print while the tests run.
var stdLog lockedBuffer

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestMain runs everything with proxies in the environment that would break each request to a name, with the standard
// logger caught behind LogFilter, and looks for goroutines that stayed behind.
func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		if err := os.Setenv(name, "http://127.0.0.1:1"); err != nil {
			panic(err)
		}
	}
	log.SetOutput(LogFilter(&stdLog))
	code := m.Run()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if printed := stdLog.String(); printed != "" {
		fmt.Fprintf(os.Stderr, "the standard logger was written to:\n%s", printed)
		code = 1
	}
	os.Exit(code)
}
