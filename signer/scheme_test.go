package signer_test

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/signer"
)

func TestSchemes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		scheme  signer.Scheme
		overlap bool
		header  string // where its signature goes when the endpoint asks for Own-Header
	}{
		{"standard", signer.Standard, true, "webhook-signature"},
		{"standard-ed25519", signer.StandardEd25519, true, "webhook-signature"},
		{"stripe", signer.Stripe, true, "Own-Header"},
		{"github", signer.GitHub, false, "X-Hub-Signature-256"},
		{"timestamped-hex", signer.TimestampedHex, false, "x-delivery-signature"},
	}
	if len(tests) != len(signer.Schemes()) || signer.Schemes()[0] != signer.Standard {
		t.Errorf("the schemes are %v", signer.Schemes())
	}
	for _, test := range tests {
		scheme, err := signer.ParseScheme(test.name)
		if err != nil || scheme != test.scheme || scheme.String() != test.name {
			t.Errorf("%s is %q, %v", test.name, scheme, err)
		}
		if scheme.SupportsOverlap() != test.overlap {
			t.Errorf("%s: overlap %t", scheme, !test.overlap)
		}
		if header := signer.SignatureHeader(scheme, "Own-Header"); header != test.header {
			t.Errorf("%s signs in %s", scheme, header)
		}
	}
	if header := signer.SignatureHeader(signer.Stripe, ""); header != "Webhook-Signature" {
		t.Errorf("stripe's default is %s", header)
	}
	for _, name := range []string{"", "Standard", "standard ", "v1", "hmac", "sha256"} {
		if scheme, err := signer.ParseScheme(name); !fault.Is(err, fault.Invalid) || scheme != "" || !strings.Contains(err.Error(), "timestamped-hex") {
			t.Errorf("%q is %q, %v", name, scheme, err)
		}
	}
	if unknown := signer.Scheme("md5"); unknown.SupportsOverlap() || signer.SignatureHeader(unknown, "x") != "" {
		t.Error("an unknown scheme can do something")
	}
}
