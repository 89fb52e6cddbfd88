package subscriptions_test

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// Nothing that signs, and no static header's value, stands readable in any column of any table: not as it is, not as
// the bytes of bytea, not in base64 or hex.
func TestNoSecretIsReadableAtRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	const canary = "CANARY-bearer-token-0123456789"
	var secrets []string
	for _, scheme := range signer.Schemes() {
		e, secret := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) {
			n.Scheme, n.Headers = scheme, headers("Authorization", canary)
		})
		secrets = append(secrets, secret.Reveal())
		overlap := time.Hour
		if !scheme.SupportsOverlap() {
			overlap = 0
		}
		_, second, err := w.RotateSecret(t.Context(), tenant, ref(e), "", overlap)
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, second.Reveal())
		w.book(e.ID.Shard, subscriptions.Health{Endpoint: e.ID.N, Failures: 1, FirstFailureAt: w.clock.now(), LastError: "500"})
	}
	e, secret := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.Scheme, n.Secret = signer.GitHub, "CANARY-github-0123456789" })
	secrets = append(secrets, secret.Reveal())
	must(w.UpdateEndpoint(t.Context(), tenant, ref(e), "", subscriptions.EndpointPatch{
		URL: put("https://example.com/found"), Headers: put(headers("X-Token", canary)),
	}))(t)

	dump := w.dump()
	if !strings.Contains(dump, "https://example.com/found") || !strings.Contains(dump, "X-Token") {
		t.Fatal("the dump does not hold what is in the tables")
	}
	for _, secret := range append(secrets, canary) {
		for _, form := range spellings(t, secret) {
			if strings.Contains(dump, form) {
				t.Errorf("%q of %q stands in the database", form, secret)
			}
		}
	}
}

// spellings gives what a secret's text, and the key in it, look like in the text form of a column.
func spellings(t *testing.T, secret string) []string {
	t.Helper()
	forms := []string{secret, hex.EncodeToString([]byte(secret))}
	for skip := range 3 { // base64 of a longer text that holds it, at each of the three offsets
		whole := base64.StdEncoding.EncodeToString([]byte(secret[skip:]))
		forms = append(forms, whole[:len(whole)/4*4-4])
	}
	for _, prefix := range []string{"whsec_", "whsk_"} {
		if encoded, ok := strings.CutPrefix(secret, prefix); ok {
			key, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				t.Fatal(err)
			}
			forms = append(forms, encoded, hex.EncodeToString(key), hex.EncodeToString(key[:32]))
		}
	}
	return forms
}

// dump gives every row of every table as text.
func (w *world) dump() string {
	w.t.Helper()
	rows, err := w.pool.Query(w.t.Context(), `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = current_schema()`)
	if err != nil {
		w.t.Fatal(err)
	}
	var out strings.Builder
	for _, table := range must(pgx.CollectRows(rows, pgx.RowTo[string]))(w.t) {
		rows, err := w.pool.Query(w.t.Context(), `SELECT t::text FROM `+table+` t`)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, line := range must(pgx.CollectRows(rows, pgx.RowTo[string]))(w.t) {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}
