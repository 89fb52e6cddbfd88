package egress

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/pkitest"
)

// TestErrorsHoldNoSecret is FC-034 with its kind: no error says the query, the userinfo or a header.
func TestErrorsHoldNoSecret(t *testing.T) {
	t.Parallel()
	ca := pkitest.NewAuthority(t, "an authority")
	closed := newWire(t, func(*exchange) {})
	_ = closed.ln.Close()
	wrong := newTLSWire(t, ca.Server(t, pkitest.Wanted{Hosts: []string{"other.test"}}), answering(okAnswer))
	mute := newWire(t, func(x *exchange) { <-x.done })
	hungUp := newWire(t, func(x *exchange) { _, _, _ = x.read() })
	garbage := newWire(t, func(x *exchange) { _, _, _ = x.read(); x.say("garbage\r\n\r\n") })
	refusing := newH2(t, func(*h2call) bool { return false })
	c := newTestClient(t, Config{
		Policy: loopback(), TLS: &tls.Config{RootCAs: ca.Pool()}, Resolver: newResolver(t, fixed(nil)), ConnectTimeout: 300 * time.Millisecond,
	})
	for name, base := range map[string]string{
		"closed port":    "http://" + closed.addr,
		"wrong name":     "https://" + wrong.addr,
		"no authority":   "https://" + refusing.addr,
		"hang":           "http://" + mute.addr,
		"TLS hang":       "https://" + mute.addr,
		"hung up":        "http://" + hungUp.addr,
		"garbage":        "http://" + garbage.addr,
		"unknown host":   "http://none.test:8080",
		"userinfo":       "https://user:CANARYPW@127.0.0.1:8443",
		"blocked":        "https://10.0.0.1",
		"port":           "https://127.0.0.1:25",
		"scheme":         "gopher://127.0.0.1",
		"no host":        "https://",
		"odd spelling":   "http://2130706433:8080",
		"malformed host": "http://a..b",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := newPost(t, time.Second, base+"/CANARYPATH?token=CANARY", []byte(`{"a":"CANARY"}`))
			req.Header.Set("Authorization", "Bearer CANARY")
			err := mustFail(t, c, req)
			if err == nil {
				t.Fatal("no error")
			}
			if strings.Contains(err.Error(), "CANARY") {
				t.Errorf("%v", err)
			}
		})
	}

	t.Run("a header that cannot be sent", func(t *testing.T) {
		t.Parallel()
		req := newPost(t, hang, mute.url("/?token=CANARY"), nil)
		req.Header = http.Header{"X": {"CANARY\r\nX-Other: y"}}
		if err := mustFail(t, c, req); err == nil || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%v", err)
		}
	})
}
