package signer

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

const redacted = "[redacted]"

// generatedKeySize is how many random bytes a new secret holds: as many as HMAC-SHA256 gives out, and what an Ed25519
// seed takes (RFC 8032, 5.1.5).
const generatedKeySize = sha256.Size

// Secret is one signing secret of one scheme. It is made by NewSecret and ParseSecret alone, so whoever holds one holds
// a key that may sign; the zero Secret signs nothing. It may be used by several goroutines at once.
//
// However a Secret is printed or encoded, it shows "[redacted]". Its material sits behind a function, because fmt and
// other printers walk a struct's unexported fields without asking their methods, and follow pointers on the way (fmt
// does for a verb that does not fit); of a function they show an address. So Secrets do not compare with ==, which
// would not be in constant time either; compare what they reveal.
type Secret struct {
	open func() *key // nil in the zero Secret
}

func seal(k *key) Secret { return Secret{func() *key { return k }} }

// NewSecret makes a secret from 32 bytes of random, which is crypto/rand.Reader outside tests.
func NewSecret(scheme Scheme, random io.Reader) (Secret, error) {
	if random == nil {
		return Secret{}, errors.New("signer: no source of randomness for a new secret")
	}
	raw := make([]byte, generatedKeySize)
	if _, err := io.ReadFull(random, raw); err != nil {
		return Secret{}, fmt.Errorf("signer: read randomness for a new secret: %w", err)
	}
	switch scheme {
	case Standard, Stripe:
		return ParseSecret(scheme, prefixSymmetric+base64.StdEncoding.EncodeToString(raw))
	case StandardEd25519:
		return newEd25519Secret(ed25519.NewKeyFromSeed(raw)), nil
	case GitHub, TimestampedHex:
		// Receivers of these schemes take the text as it stands; hex survives every shell, .env file and form.
		return ParseSecret(scheme, hex.EncodeToString(raw))
	}
	return Secret{}, fmt.Errorf("signer: no secret for the unknown scheme %q", string(scheme))
}

// Reveal gives the exact text that is shown to the endpoint's owner and that is stored (encrypted, by the caller).
// ParseSecret takes it back. The zero Secret reveals "".
func (s Secret) Reveal() string {
	if s.open == nil {
		return ""
	}
	return s.open().text
}

// PublicKey gives the text ("whpk_…") with which a receiver verifies standard-ed25519. It is no secret. Other schemes
// have none: "".
func (s Secret) PublicKey() string {
	if s.open == nil || s.open().private == nil {
		return ""
	}
	public := s.open().private[ed25519.SeedSize:] // a private key is its seed and then the public key
	return prefixPublic + base64.StdEncoding.EncodeToString(public)
}

// String hides the secret.
func (Secret) String() string { return redacted }

// GoString hides the secret from %#v.
func (Secret) GoString() string { return redacted }

// Format hides the secret from every verb of fmt, also the ones that do not fit a string.
func (Secret) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, redacted) }

// MarshalText hides the secret from text encodings.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON hides the secret from JSON.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
