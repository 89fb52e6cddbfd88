package signer_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/signer"
)

func TestParseSecretRefuses(t *testing.T) {
	t.Parallel()
	const good = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX" // 24 bytes
	ofBytes := func(prefix string, n int) string {
		return prefix + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xfb}, n))
	}
	tests := []struct {
		name   string
		scheme signer.Scheme
		text   string
		says   string
	}{
		{"nothing", signer.Standard, "", "is empty"},
		{"nothing, ed25519", signer.StandardEd25519, "", "is empty"},
		{"nothing, stripe", signer.Stripe, "", "is empty"},
		{"nothing, github", signer.GitHub, "", "is empty"},
		{"nothing, timestamped-hex", signer.TimestampedHex, "", "is empty"},
		{"blanks", signer.Standard, "   ", "nothing but blanks"},
		{"many blanks", signer.GitHub, strings.Repeat(" ", 32), "nothing but blanks"},
		{"line breaks", signer.Stripe, strings.Repeat("\n", 32), "nothing but blanks"},
		{"prefix alone", signer.Standard, "whsec_", "no key after"},
		{"prefix alone, ed25519", signer.StandardEd25519, "whsk_", "no key after"},
		{"prefix alone, stripe", signer.Stripe, "whsec_", "6 characters long"},
		{"not base64", signer.Standard, "whsec_!!!!", "not standard base64"},
		{"3 bytes", signer.Standard, "whsec_QUJD", "key of 3 bytes"},
		{"23 bytes", signer.Standard, ofBytes("whsec_", 23), "key of 23 bytes"},
		{"65 bytes", signer.Standard, ofBytes("whsec_", 65), "key of 65 bytes"},
		{"with a signature's version", signer.Standard, "v1," + good, "leave out all that stands before"},
		{"with the other signature's version", signer.StandardEd25519, "v1a," + seedEd2, "leave out all that stands before"},
		{"line break behind", signer.Standard, good + "\n", "blank or a line break"},
		{"CRLF behind", signer.Standard, good + "\r\n", "blank or a line break"},
		{"blank before", signer.Standard, " " + good, "blank or a line break"},
		{"tab behind", signer.Standard, good + "\t", "blank or a line break"},
		{"no-break space behind", signer.GitHub, gitHub + "\u00a0", "blank or a line break"},
		{"blank before, github", signer.GitHub, " " + gitHub, "blank or a line break"},
		{"line break behind, stripe", signer.Stripe, secretA + "\n", "blank or a line break"},
		{"blank before, ed25519", signer.StandardEd25519, " " + secretEd, "blank or a line break"},
		{"line break inside", signer.Standard, good[:20] + "\n" + good[20:], "not standard base64"},
		{"blank inside", signer.Standard, good[:20] + " " + good[20:], "not standard base64"},
		{"line break inside, ed25519", signer.StandardEd25519, secretEd[:20] + "\r\n" + secretEd[20:], "not standard base64"},
		{"line break inside, github", signer.GitHub, "It's a Secret\nto Everybody", "not printable ASCII"},
		{"NUL inside, timestamped-hex", signer.TimestampedHex, "It's a Secret\x00to Everybody", "not printable ASCII"},
		{"NUL behind", signer.Standard, good + "\x00", "not standard base64"},
		{"DEL inside", signer.Stripe, "It's a Secret\x7fto Everybody", "not printable ASCII"},
		{"a letter beyond ASCII", signer.GitHub, "It's a Sécret to Everybody", "not printable ASCII"},
		{"invalid UTF-8", signer.GitHub, "It's a Secret \xff to Everybody", "not printable ASCII"},
		{"no prefix", signer.Standard, good[len("whsec_"):], `begin with "whsec_"`},
		{"prefix in capitals", signer.Standard, "WHSEC_" + good[len("whsec_"):], `begin with "whsec_"`},
		{"a private key", signer.Standard, secretEd, "scheme standard-ed25519"},
		{"a public key", signer.Standard, publicEd, "cannot sign"},
		{"a public key, ed25519", signer.StandardEd25519, publicEd, "cannot sign"},
		{"a symmetric secret, ed25519", signer.StandardEd25519, secretA, "scheme standard;"},
		{"padding missing", signer.Standard, strings.TrimRight(ofBytes("whsec_", 25), "="), "add the = signs"},
		{"padding too much", signer.Standard, good + "=", "not standard base64"},
		{"stray bits", signer.Standard, strings.Replace(ofBytes("whsec_", 25), "+w==", "+x==", 1), "not standard base64"},
		{"URL-safe alphabet", signer.Standard, strings.ReplaceAll(ofBytes("whsec_", 24), "+", "-"), "URL-safe"},
		{"31 bytes, ed25519", signer.StandardEd25519, ofBytes("whsk_", 31), "is 31 bytes"},
		{"33 bytes, ed25519", signer.StandardEd25519, ofBytes("whsk_", 33), "is 33 bytes"},
		{"halves do not match", signer.StandardEd25519, ofBytes("whsk_", 64), "second half"},
		{"15 characters", signer.Stripe, strings.Repeat("x", 15), "15 characters long"},
		{"257 characters", signer.TimestampedHex, strings.Repeat("x", 257), "257 characters long"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			secret, err := signer.ParseSecret(test.scheme, test.text)
			if err == nil {
				t.Fatal("taken")
			}
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("fault %q: %v, want invalid and %q", fault.CodeOf(err), err, test.says)
			}
			if len(test.text) > 10 && strings.TrimSpace(test.text) != "" {
				for i := range len(test.text) - 8 { // any eight characters of it but those of a prefix
					if piece := test.text[i : i+8]; strings.Contains(err.Error(), piece) {
						t.Errorf("%q repeats %q of the secret", err, piece)
					}
				}
			}
			if secret.Reveal() != "" {
				t.Error("a refused secret reveals something")
			}
		})
	}
}

func TestParseSecretTakes(t *testing.T) {
	t.Parallel()
	ofBytes := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	tests := []struct {
		name   string
		scheme signer.Scheme
		text   string
		shown  string // "" for the same
		public string
	}{
		{"24 bytes", signer.Standard, secretA, "", ""},
		{"24 bytes with +", signer.Standard, secretB, "", ""},
		{"32 bytes", signer.Standard, ofBytes(32), "", ""},
		{"64 bytes", signer.Standard, ofBytes(64), "", ""},
		{"ed25519, seed and public key", signer.StandardEd25519, secretEd, "", publicEd},
		{"ed25519, seed", signer.StandardEd25519, seedEd2, secretEd2, publicEd2},
		{"ed25519, another seed", signer.StandardEd25519, seedEd, secretEd, publicEd},
		{"stripe", signer.Stripe, secretA, "", ""},
		{"github, blanks inside", signer.GitHub, gitHub, "", ""},
		{"16 characters", signer.TimestampedHex, "0123456789abcdef", "", ""},
		{"256 characters", signer.GitHub, strings.Repeat("~", 256), "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.shown == "" {
				test.shown = test.text
			}
			secret := parse(t, test.scheme, test.text)
			if secret.Reveal() != test.shown {
				t.Errorf("shown as %q", secret.Reveal())
			}
			if secret.PublicKey() != test.public {
				t.Errorf("public key %q, want %q", secret.PublicKey(), test.public)
			}
			if again := parse(t, test.scheme, secret.Reveal()); again.Reveal() != test.shown {
				t.Errorf("read back as %q", again.Reveal())
			}
		})
	}
}

func TestNewSecret(t *testing.T) {
	t.Parallel()
	fixed := func() io.Reader { return strings.NewReader(strings.Repeat("r", 32)) }
	want := map[signer.Scheme]string{
		signer.Standard: "whsec_cnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnI=",
		signer.StandardEd25519: "whsk_cnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnJ" +
			"bZInJx/0Nz1BUXnwWSIbvQEkewGx/GxIwQXl+gRdTXg==",
		signer.Stripe:         "whsec_cnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnI=",
		signer.GitHub:         strings.Repeat("72", 32),
		signer.TimestampedHex: strings.Repeat("72", 32),
	}
	for _, scheme := range signer.Schemes() {
		t.Run(scheme.String(), func(t *testing.T) {
			t.Parallel()
			secret, err := signer.NewSecret(scheme, fixed())
			if err != nil {
				t.Fatal(err)
			}
			if secret.Reveal() != want[scheme] {
				t.Errorf("%s, want %s", secret.Reveal(), want[scheme])
			}
			if parse(t, scheme, secret.Reveal()).Reveal() != secret.Reveal() {
				t.Error("a generated secret does not come back the same")
			}
			if _, err := signer.NewSecret(scheme, iotest.TimeoutReader(iotest.OneByteReader(fixed()))); err == nil {
				t.Error("made from a source that broke off")
			}
			if _, err := signer.NewSecret(scheme, strings.NewReader("too short")); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("made from too few bytes: %v", err)
			}
			if _, err := signer.NewSecret(scheme, nil); err == nil {
				t.Error("made from no source at all")
			}
			one, errOne := signer.NewSecret(scheme, rand.Reader)
			two, errTwo := signer.NewSecret(scheme, rand.Reader)
			if errOne != nil || errTwo != nil || one.Reveal() == two.Reveal() {
				t.Errorf("two secrets are the same, or %v, %v", errOne, errTwo)
			}
		})
	}
	if _, err := signer.NewSecret("md5", fixed()); err == nil {
		t.Error("a secret of an unknown scheme")
	}
	if _, err := signer.ParseSecret("md5", gitHub); err == nil {
		t.Error("read a secret of an unknown scheme")
	}
}

// longEnough reports whether a secret is one of CONTRACT §1: a key of 24 to 64 bytes, strictly decoded, or 16 to 256 printable characters.
func longEnough(scheme signer.Scheme, text string) bool {
	switch scheme {
	case signer.Standard:
		key, err := base64.StdEncoding.Strict().DecodeString(strings.TrimPrefix(text, "whsec_"))
		return err == nil && len(key) >= 24 && len(key) <= 64 && base64.StdEncoding.EncodeToString(key) == strings.TrimPrefix(text, "whsec_")
	case signer.StandardEd25519:
		return strings.HasPrefix(text, "whsk_")
	case signer.Stripe, signer.GitHub, signer.TimestampedHex:
	}
	printable := !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
	return len(text) >= 16 && len(text) <= 256 && printable
}

func FuzzParseSecret(f *testing.F) {
	for _, text := range []string{"", "whsec_", secretA, secretB, secretEd, seedEd2, publicEd, gitHub, "v1," + secretA, " x\n"} {
		f.Add(text)
	}
	for _, text := range []string{ // FC-013
		"whsec_!!!!", "whsec_QUJD", "v1,whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX\n",
		" whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "   ", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRY=",
		"whsec_" + strings.Repeat("A", 86) + "==", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX=", strings.Repeat("x", 16), strings.Repeat("x", 257),
	} {
		f.Add(text)
	}
	const marker = "\x00k9Zq7X\n"
	f.Fuzz(func(t *testing.T, text string) {
		for _, scheme := range signer.Schemes() {
			secret, err := signer.ParseSecret(scheme, text)
			switch {
			case err != nil && !fault.Is(err, fault.Invalid):
				t.Errorf("%s: no fault of the caller's: %v", scheme, err)
			case err == nil && scheme != signer.StandardEd25519 && secret.Reveal() != text:
				t.Errorf("%s: shown as %q", scheme, secret.Reveal())
			case err == nil && parse(t, scheme, secret.Reveal()).Reveal() != secret.Reveal():
				t.Errorf("%s: does not come back the same", scheme)
			case err == nil && strings.TrimSpace(text) != text:
				t.Errorf("%s: taken with outer blanks", scheme)
			case err == nil && !longEnough(scheme, text):
				t.Errorf("%s: %q is taken", scheme, text)
			}
			half := len(text) / 2
			if _, err := signer.ParseSecret(scheme, text[:half]+marker+text[half:]); err == nil || strings.Contains(err.Error(), "k9Zq7X") {
				t.Errorf("%s: taken, or repeated: %v", scheme, err)
			}
		}
	})
}
