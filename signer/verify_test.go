package signer_test

import (
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/signer"
)

// ofScheme has, for each scheme, a secret that signs, another one, what a receiver verifies with, and where the
// signature stands.
var ofScheme = map[signer.Scheme]struct{ secret, other, verifyWith, signature, timestamp string }{
	signer.Standard:        {secretA, secretB, secretA, "webhook-signature", "webhook-timestamp"},
	signer.StandardEd25519: {secretEd, secretEd2, publicEd, "webhook-signature", "webhook-timestamp"},
	signer.Stripe:          {secretA, secretB, secretA, "Webhook-Signature", ""},
	signer.GitHub:          {gitHub, secretB, gitHub, "X-Hub-Signature-256", ""},
	signer.TimestampedHex:  {gitHub, secretB, gitHub, "x-delivery-signature", "x-delivery-timestamp"},
}

func TestVerify(t *testing.T) {
	t.Parallel()
	const tolerance = 5 * time.Minute
	for _, scheme := range signer.Schemes() {
		of := ofScheme[scheme]
		timed := scheme != signer.GitHub
		tests := []struct {
			name   string
			change func(head http.Header)
			body   string
			secret string
			late   time.Duration
			want   error
			only   bool // of timed schemes
		}{
			{name: "as sent"},
			{name: "at the edge, late", late: tolerance},
			{name: "at the edge, early", late: -tolerance},
			{name: "too old", late: tolerance + time.Second, want: signer.ErrTooOld, only: true},
			{name: "too new", late: -tolerance - time.Second, want: signer.ErrTooNew, only: true},
			{name: "body changed", body: vectorBody + " ", want: signer.ErrNoMatch},
			{name: "another secret", secret: of.other, want: signer.ErrNoMatch},
			{name: "no signature", change: func(h http.Header) { h.Del(of.signature) }, want: signer.ErrMissingHeader},
			{name: "signature cut", change: func(h http.Header) {
				h.Set(of.signature, h.Get(of.signature)[:len(h.Get(of.signature))-2])
			}, want: signer.ErrNoMatch},
			{name: "signature longer", change: func(h http.Header) { h.Set(of.signature, h.Get(of.signature)+"00") }, want: signer.ErrNoMatch},
		}
		for _, test := range tests {
			t.Run(scheme.String()+" "+test.name, func(t *testing.T) {
				t.Parallel()
				head := sign(t, scheme, "", vector(), of.secret)
				body, secret := vectorBody, of.verifyWith
				if test.change != nil {
					test.change(head)
				}
				if test.body != "" {
					body = test.body
				}
				if test.secret != "" {
					secret = test.secret
				}
				want := test.want
				if test.only && !timed {
					want = nil
				}
				err := signer.Verify(scheme, "", secret, head.Get, []byte(body), vectorNow().Add(test.late), tolerance)
				if !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			})
		}
	}
}

// While a rotation overlaps, receivers that hold either secret are content, and others are not.
func TestVerifyDuringRotation(t *testing.T) {
	t.Parallel()
	for _, scheme := range signer.Schemes() {
		of := ofScheme[scheme]
		head := sign(t, scheme, "", vector(), of.other, of.secret) // newest first
		verify := func(secret string) error {
			return signer.Verify(scheme, "", secret, head.Get, []byte(vectorBody), vectorNow(), time.Minute)
		}
		if err := verify(of.other); err != nil {
			t.Errorf("%s, new secret: %v", scheme, err)
		}
		if err := verify(of.secret); (err == nil) != scheme.SupportsOverlap() {
			t.Errorf("%s, old secret: %v", scheme, err)
		}
		if err := verify(newSecret(t, scheme).Reveal()); !errors.Is(err, signer.ErrNoMatch) {
			t.Errorf("%s, a stranger's secret: %v", scheme, err)
		}
	}
}

func TestVerifyReadsHeaders(t *testing.T) {
	t.Parallel()
	const ts = "1614265330"
	tests := []struct {
		name   string
		scheme signer.Scheme
		header string
		value  string
		want   error
	}{
		{"no id", signer.Standard, "webhook-id", "", signer.ErrMissingHeader},
		{"another id", signer.Standard, "webhook-id", "msg_other", signer.ErrNoMatch},
		{"id with the border moved", signer.Standard, "webhook-id", vectorID + "." + ts, signer.ErrBadHeader},
		{"no time", signer.Standard, "webhook-timestamp", "", signer.ErrMissingHeader},
		{"another time", signer.Standard, "webhook-timestamp", "1614265331", signer.ErrNoMatch},
		{"same time in another spelling", signer.Standard, "webhook-timestamp", "01614265330", signer.ErrNoMatch},
		{"time with a sign", signer.Standard, "webhook-timestamp", "+1614265330", signer.ErrBadHeader},
		{"time negative", signer.Standard, "webhook-timestamp", "-1614265330", signer.ErrBadHeader},
		{"time broken", signer.Standard, "webhook-timestamp", "1614265330.5", signer.ErrBadHeader},
		{"time with a blank", signer.Standard, "webhook-timestamp", " 1614265330", signer.ErrBadHeader},
		{"time in milliseconds", signer.Standard, "webhook-timestamp", "1614265330000", signer.ErrBadHeader},
		{"time beyond numbers", signer.Standard, "webhook-timestamp", "99999999999999999999999", signer.ErrBadHeader},
		{"time in words", signer.Standard, "webhook-timestamp", "now", signer.ErrBadHeader},
		{"right one among others", signer.Standard, "webhook-signature", "v2,xx v1, v1a,yy v1,zz " + standardA, nil},
		{"other versions only", signer.Standard, "webhook-signature", "v2,xx v1a,yy", signer.ErrNoMatch},
		{"without the version", signer.Standard, "webhook-signature", standardA[3:], signer.ErrNoMatch},
		{"under the wrong version", signer.Standard, "webhook-signature", "v1a," + standardA[3:], signer.ErrNoMatch},
		{"comma between", signer.Standard, "webhook-signature", "v1,xx," + standardA, signer.ErrNoMatch},
		{"16 signatures", signer.Standard, "webhook-signature", strings.Repeat("v1,x ", 15) + standardA, nil},
		{"17 signatures", signer.Standard, "webhook-signature", strings.Repeat("v1,x ", 16) + standardA, signer.ErrBadHeader},
		{"ed25519 among others", signer.StandardEd25519, "webhook-signature", standardA + " " + ed25519A, nil},
		{"ed25519 without padding", signer.StandardEd25519, "webhook-signature", strings.TrimRight(ed25519A, "="), signer.ErrNoMatch},
		{"symmetric for ed25519", signer.StandardEd25519, "webhook-signature", standardA, signer.ErrNoMatch},
		{"stripe in another order", signer.Stripe, "Webhook-Signature", "v1=" + stripeA + ",v0=x,t=" + ts, nil},
		{"stripe in capitals", signer.Stripe, "Webhook-Signature", "t=" + ts + ",v1=" + strings.ToUpper(stripeA), nil},
		{"stripe without time", signer.Stripe, "Webhook-Signature", "v1=" + stripeA, signer.ErrBadHeader},
		{"stripe with two times", signer.Stripe, "Webhook-Signature", "t=" + ts + ",t=1,v1=" + stripeA, signer.ErrBadHeader},
		{"stripe with an empty time", signer.Stripe, "Webhook-Signature", "t=,v1=" + stripeA, signer.ErrBadHeader},
		{"stripe without a signature", signer.Stripe, "Webhook-Signature", "t=" + ts, signer.ErrNoMatch},
		{"stripe of an old version", signer.Stripe, "Webhook-Signature", "t=" + ts + ",v0=" + stripeA, signer.ErrNoMatch},
		{"github without its prefix", signer.GitHub, "X-Hub-Signature-256", strings.Repeat("0", 64), signer.ErrNoMatch},
		{"github with SHA-1", signer.GitHub, "X-Hub-Signature-256", "sha1=" + strings.Repeat("0", 40), signer.ErrNoMatch},
		{"github with an empty one", signer.GitHub, "X-Hub-Signature-256", "sha256=", signer.ErrNoMatch},
		{"hex without time", signer.TimestampedHex, "x-delivery-timestamp", "", signer.ErrMissingHeader},
		{"hex with another time", signer.TimestampedHex, "x-delivery-timestamp", "1614265331", signer.ErrNoMatch},
		{"hex with time in words", signer.TimestampedHex, "x-delivery-timestamp", "today", signer.ErrBadHeader},
		{"hex that is none", signer.TimestampedHex, "x-delivery-signature", strings.Repeat("z", 64), signer.ErrNoMatch},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			of := ofScheme[test.scheme]
			head := sign(t, test.scheme, "", vector(), of.secret)
			head.Set(test.header, test.value)
			err := signer.Verify(test.scheme, "", of.verifyWith, head.Get, []byte(vectorBody), vectorNow(), time.Minute)
			if !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), of.secret) {
				t.Errorf("%v repeats the secret", err)
			}
		})
	}
}

func TestVerifySecretsAndTolerance(t *testing.T) {
	t.Parallel()
	head := sign(t, signer.StandardEd25519, "", vector(), secretEd)
	for _, secret := range []string{publicEd, secretEd, seedEd} { // public, private, seed
		if err := signer.Verify(signer.StandardEd25519, "", secret, head.Get, []byte(vectorBody), vectorNow(), time.Minute); err != nil {
			t.Error(err)
		}
	}
	for _, secret := range []string{"", "whpk_", "whpk_AAAA", publicEd + "\n", strings.TrimSuffix(publicEd, "="), secretA} {
		err := signer.Verify(signer.StandardEd25519, "", secret, head.Get, []byte(vectorBody), vectorNow(), time.Minute)
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("verified with %q: %v", secret, err)
		}
	}
	for _, scheme := range signer.Schemes() {
		of := ofScheme[scheme]
		head := sign(t, scheme, "", vector(), of.secret)
		for _, tolerance := range []time.Duration{0, -time.Second} {
			err := signer.Verify(scheme, "", of.verifyWith, head.Get, []byte(vectorBody), vectorNow(), tolerance)
			if (err == nil) != (scheme == signer.GitHub) {
				t.Errorf("%s with a tolerance of %s: %v", scheme, tolerance, err)
			}
		}
		years := vectorNow().AddDate(50, 0, 0)
		if err := signer.Verify(scheme, "", of.verifyWith, head.Get, []byte(vectorBody), years, math.MaxInt64); err != nil {
			t.Errorf("%s with all the time there is: %v", scheme, err)
		}
	}
	if err := signer.Verify("md5", "", gitHub, head.Get, nil, vectorNow(), time.Minute); err == nil {
		t.Error("verified with an unknown scheme")
	}
	own := sign(t, signer.Stripe, "Stripe-Signature", vector(), secretA)
	if err := signer.Verify(signer.Stripe, "stripe-signature", secretA, own.Get, []byte(vectorBody), vectorNow(), time.Minute); err != nil {
		t.Error(err)
	}
}

// Whatever the headers hold, nothing but the true signature passes.
func FuzzVerify(f *testing.F) {
	for _, value := range []string{
		"", standardA, ed25519A, "t=1614265330,v1=" + stripeA, "sha256=00", hexSum, "v1,", "v1, v1,", "t=,v1=", "t=1,t=2", ",,,", " ", "v1a,====",
	} {
		f.Add(vectorID, "1614265330", value)
	}
	truths := map[signer.Scheme]string{
		signer.Standard: standardA, signer.StandardEd25519: ed25519A, signer.Stripe: stripeA, signer.TimestampedHex: hexSum,
		signer.GitHub: sign(f, signer.GitHub, "", vector(), gitHub).Get("X-Hub-Signature-256"),
	}
	f.Fuzz(func(t *testing.T, id, timestamp, value string) {
		for scheme, of := range ofScheme {
			headers := func(name string) string {
				switch name {
				case "webhook-id":
					return id
				case of.timestamp:
					return timestamp
				case of.signature:
					return value
				}
				return ""
			}
			err := signer.Verify(scheme, "", of.verifyWith, headers, []byte(vectorBody), vectorNow(), time.Minute)
			if err == nil && !strings.Contains(strings.ToLower(value), strings.ToLower(truths[scheme])) {
				t.Errorf("%s takes id %q, time %q, signature %q", scheme, id, timestamp, value)
			}
		}
	})
}
