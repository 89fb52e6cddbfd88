package signer

import (
	"strings"

	"github.com/postrider/postrider/internal/fault"
)

// Scheme is the way an endpoint's deliveries are signed. Its value is what the API, the database and the logs show.
type Scheme string

// The schemes. What each signs and sends is in Sign.
const (
	Standard        Scheme = "standard"         // Standard Webhooks 1.0.0, symmetric: HMAC-SHA256, "v1"
	StandardEd25519 Scheme = "standard-ed25519" // Standard Webhooks 1.0.0, asymmetric: Ed25519, "v1a"
	Stripe          Scheme = "stripe"           // what Stripe's libraries verify: "t=…,v1=…"
	GitHub          Scheme = "github"           // what GitHub's libraries verify: "sha256=…", no timestamp
	TimestampedHex  Scheme = "timestamped-hex"  // bare hex over "<timestamp>.<body>"
)

// Schemes lists all schemes, the default first.
func Schemes() []Scheme {
	return []Scheme{Standard, StandardEd25519, Stripe, GitHub, TimestampedHex}
}

// ParseScheme reads a scheme's name. Anything else, also "", is an Invalid fault; which scheme stands for none given
// is the caller's to say.
func ParseScheme(text string) (Scheme, error) {
	names := make([]string, 0, len(Schemes()))
	for _, s := range Schemes() {
		if text == string(s) {
			return s, nil
		}
		names = append(names, string(s))
	}
	return "", fault.New(fault.Invalid, "there is no such signature scheme; the schemes are %s", strings.Join(names, ", "))
}

// String gives the scheme's name.
func (s Scheme) String() string { return string(s) }

// SupportsOverlap reports whether the scheme's headers have room for several signatures, so that an old and a new
// secret can both sign while a rotation overlaps.
func (s Scheme) SupportsOverlap() bool {
	switch s {
	case Standard, StandardEd25519, Stripe:
		return true
	case GitHub, TimestampedHex:
		return false
	}
	return false
}

// SignatureHeader names the header that carries the scheme's signature. configured is the endpoint's own choice
// (signature.header); only stripe has that choice, and "" takes its default.
func SignatureHeader(scheme Scheme, configured string) string {
	switch scheme {
	case Standard, StandardEd25519:
		return HeaderSignature
	case Stripe:
		if configured != "" {
			return configured
		}
		return DefaultStripeHeader
	case GitHub:
		return HeaderGitHubSignature
	case TimestampedHex:
		return HeaderHexSignature
	}
	return ""
}
