package alert_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/pkitest"
)

// Some services' hosts are fixed in the library, and it verifies their certificates. So for the tests the names of known services
// lead to sinks on loopback, whose certificates are by the one authority that this process trusts.
var (
	services sync.Map // host:port to the address of a sink
	roots    string
	rootOnce sync.Once
	root     *pkitest.Authority
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "postrider-alert")
	if err != nil {
		panic(err)
	}
	roots = filepath.Join(dir, "roots.pem")
	for _, env := range []struct{ name, value string }{{"SSL_CERT_FILE", roots}, {"SSL_CERT_DIR", dir}} {
		if err := os.Setenv(env.name, env.value); err != nil {
			panic(err)
		}
	}
	transport := http.DefaultTransport.(*http.Transport)
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if to, ok := services.Load(addr); ok {
			addr = to.(string)
		}
		return dial(ctx, network, addr)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// authority is what this process trusts.
func authority(t *testing.T) *pkitest.Authority {
	t.Helper()
	rootOnce.Do(func() {
		root = pkitest.NewAuthority(t, "the tests' authority")
		if err := os.WriteFile(roots, []byte(root.PEM()), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	return root
}
