//go:build chaos

package e2e

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/postrider/postrider/internal/pkitest"
)

// authority is a certificate authority of one test. A process trusts it through SSL_CERT_FILE.
type authority struct {
	*pkitest.Authority
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{pkitest.NewAuthority(t, "an authority"), filepath.Join(t.TempDir(), "authority.pem")}
	if err := os.WriteFile(a.file, []byte(a.PEM()), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// server gives what a receiver on loopback needs, which speaks the protocols named.
func (a *authority) server(t *testing.T, protocols ...string) *tls.Config {
	t.Helper()
	cfg := a.Server(t, pkitest.Wanted{Hosts: []string{"127.0.0.1"}})
	cfg.NextProtos = protocols
	return cfg
}
