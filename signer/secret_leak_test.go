package signer_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/postrider/postrider/signer"
)

func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	for scheme, text := range map[signer.Scheme]string{
		signer.Standard: secretA, signer.StandardEd25519: secretEd, signer.GitHub: "CANARY-canary-CANARY",
	} {
		secret := parse(t, scheme, text)
		signer.Sign(scheme, "", []signer.Secret{secret}, vector()) //nolint:errcheck // only so that its caches are filled
		type open struct{ S signer.Secret }
		type shut struct{ s signer.Secret }
		values := []any{
			secret, &secret,
			open{secret},
			&open{secret},
			shut{secret},
			&shut{secret},
			[]signer.Secret{secret},
			map[string]signer.Secret{"k": secret},
			map[string]any{"k": &secret},
		}
		var printed strings.Builder
		for _, value := range values {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p", "%T", "%64v"} {
				fmt.Fprintf(&printed, verb+"\n", value)
			}
			encoded, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			printed.Write(encoded)
		}
		encoded, err := secret.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		printed.Write(encoded)
		printed.WriteString(secret.String() + secret.GoString() + fmt.Errorf("load: %w, %v", io.EOF, secret).Error())
		checkNoLeak(t, printed.String(), text)
		if string(encoded) != "[redacted]" {
			t.Errorf("encoded as %s", encoded)
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if shown := fmt.Sprintf(verb, secret); shown != "[redacted]" {
				t.Errorf("%s prints %q", verb, shown)
			}
		}
	}
}

// checkNoLeak looks for a secret in the spellings that fmt or an encoder could have given it.
func checkNoLeak(t *testing.T, printed, text string) {
	t.Helper()
	payload := text[strings.IndexByte(text, '_')+1:]
	spellings := []string{
		payload, fmt.Sprintf("%x", payload), fmt.Sprintf("%X", payload),
		strings.Trim(fmt.Sprintf("%d", []byte(payload)), "[]"), base64.StdEncoding.EncodeToString([]byte(text)),
	}
	if raw, err := base64.StdEncoding.DecodeString(payload); err == nil {
		spellings = append(spellings, string(raw), fmt.Sprintf("%x", raw), strings.Trim(fmt.Sprintf("%d", raw), "[]"))
	}
	for _, spelling := range spellings {
		if strings.Contains(printed, spelling) {
			t.Errorf("printed as %q", spelling)
		}
	}
}

func TestZeroSecret(t *testing.T) {
	t.Parallel()
	var zero signer.Secret
	if zero.Reveal() != "" || zero.PublicKey() != "" || fmt.Sprintf("%+v", zero) != "[redacted]" {
		t.Errorf("the zero secret shows %q, %q, %+v", zero.Reveal(), zero.PublicKey(), zero)
	}
	for _, scheme := range signer.Schemes() {
		if headers, err := signer.Sign(scheme, "", []signer.Secret{zero}, vector()); !errors.Is(err, signer.ErrNoSecret) || headers != nil {
			t.Errorf("%s signed with it: %v, %v", scheme, headers, err)
		}
	}
}
