package e2e

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/internal/pkitest"
	"github.com/postrider/postrider/signer"
)

// dump is what `pg_dump` makes of the test's database.
func dump(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("pg_dump")
	if err != nil {
		found, globErr := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump")
		if globErr != nil || len(found) == 0 {
			t.Fatal(err)
		}
		program = found[len(found)-1]
	}
	cfg, err := pg.ParseURL(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--format=plain")
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "PGHOST=" + cfg.Host, fmt.Sprint("PGPORT=", cfg.Port), "PGDATABASE=" + cfg.Database,
		"PGUSER=" + cfg.User, "PGPASSWORD=" + cfg.Password,
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	return string(out)
}

// A dump of a database in which every kind of secret has been used holds none of them, nor does anything that a process
// prints: secrets of each scheme, given and made, current, rotated and expired; static headers, of each version; keys of client
// certificates; API keys; and what only the configuration has.
func TestADumpHoldsNoSecret(t *testing.T) {
	t.Parallel()
	secrets := canaries{"the admin key": adminKey, "the sealing key": sealKey, "alerts.urls": "canary-of-alerts-urls-ghijklmnop"}
	hit := receive(t, always(500))
	env := settings{
		"DATABASE_URL": pgtest.URL(t), "LOG_LEVEL": "debug", "DELIVERY_RETRY_SCHEDULE": "20ms",
		// A channel that refuses: what is wrong with it is logged and stored.
		"ALERTS_URLS": "generic+" + hit.url("/"+secrets["alerts.urls"]) + "?token=" + secrets["alerts.urls"],
	}
	if cfg, err := pg.ParseURL(pgtest.URL(t)); err != nil || cfg.Password == "" {
		t.Fatal("the test's database has no password", err)
	} else if len(cfg.Password) > 8 { // a shorter one may be anywhere
		secrets["the database's password"] = cfg.Password
	}
	p := serve(t, env)
	tenant := p.tenant()
	for i, scheme := range signer.Schemes() {
		for _, given := range []bool{false, true} {
			name := fmt.Sprintf("%s, given %v", scheme, given)
			secrets["a header of "+name] = fmt.Sprintf("Bearer canary-of-a-header-%v-%d-qrstuv", given, i)
			signature, next := object{"scheme": scheme}, object{"overlap": "0s"}
			if given {
				signature["secret"], next["secret"] = ownSecret(t, scheme, 2*i), ownSecret(t, scheme, 2*i+1)
			}
			if scheme.SupportsOverlap() {
				next["overlap"] = "1h"
			}
			e := p.endpoint(tenant, hit.url("/hook-of-a-scheme"), object{
				"signature": signature, "headers": object{"X-Canary": secrets["a header of "+name]},
			})
			secrets["the first of "+name] = e.object("signature").text("secret")
			path := "/v1/tenants/" + tenant + "/endpoints/" + e.text("id")
			rotated := p.want(http.StatusOK, http.MethodPost, path+"/secret/rotate", next)
			secrets["the second of "+name] = rotated.text("secret")
			secrets["the other header of "+name] = fmt.Sprintf("canary-of-another-header-%v-%d-wxyzab", given, i)
			p.want(http.StatusOK, http.MethodPatch, path, object{"headers": object{"X-Canary": secrets["the other header of "+name]}})
		}
	}
	certificate, key := pkitest.NewAuthority(t, "an authority").Issue(t, pkitest.Wanted{Name: "canary-of-a-subject"})
	// Of no event type that is sent: what matters is what is stored.
	p.endpoint(tenant, "https://receiver.test/hook-with-tls", object{
		"event_types": []string{"none"}, "tls": object{"certificate": certificate, "key": key},
	})
	block, _ := pem.Decode([]byte(key))
	secrets["a client certificate's key"] = string(block.Bytes)
	secrets["a client certificate's key as PEM"] = strings.Split(key, "\n")[2] // half of it is in this line
	made := p.want(http.StatusCreated, http.MethodPost, "/v1/api-keys", object{"name": "canary", "scopes": []string{"admin"}})
	secrets["an API key"] = made.text("key")
	p.send(tenant, "a", object{"n": 1})
	eventually(t, p.unfinished)
	eventually(t, func() string {
		if !strings.Contains(p.logged(), "alert.notice_failed") {
			return "no alert was sent to the channel that refuses"
		}
		return ""
	})
	for name, secret := range secrets {
		if len(secret) < 12 {
			t.Fatalf("%s is %q: nothing to search for", name, secret)
		}
	}
	p.stop()

	dumped := dump(t)
	if !strings.Contains(dumped, "hook-of-a-scheme") || !strings.Contains(dumped, "X-Canary") || !strings.Contains(dumped, "seal_keys") ||
		!strings.Contains(dumped, "hook-with-tls") || !strings.Contains(dumped, strings.Split(certificate, "\n")[2]) {
		t.Fatal("the dump does not hold what is in the tables")
	}
	env["SECRETS_KEYS"], env["BOOTSTRAP_ADMIN_KEY"] = sealKey, adminKey
	texts := map[string]string{"the dump": dumped, "the log": p.logged()}
	for _, args := range []string{"config print", "config print --json", "config check --json", "secrets status", "secrets rotate --json"} {
		code, said := output(t, env, strings.Fields(args)...)
		if code != 0 {
			t.Errorf("%s: exit %d: %s", args, code, said)
		}
		texts["postrider "+args] = said
	}
	for name, text := range texts {
		if hit := secrets.found(text); hit != "" {
			t.Errorf("%s holds %s", name, hit)
		}
	}
}

// ownSecret is a secret as an owner would give it, the n-th of its scheme.
func ownSecret(t *testing.T, scheme signer.Scheme, n int) string {
	t.Helper()
	switch scheme {
	case signer.Standard, signer.StandardEd25519:
		secret, err := signer.NewSecret(scheme, bytes.NewReader(bytes.Repeat([]byte(fmt.Sprintf("canary-%02d-", n)), 20)))
		if err != nil {
			t.Fatal(err)
		}
		return secret.Reveal()
	case signer.Stripe, signer.GitHub, signer.TimestampedHex:
	}
	return fmt.Sprintf("canary of the owner's own %s %02d/", scheme, n)
}
