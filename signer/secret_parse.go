package signer

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"

	"github.com/postrider/postrider/internal/fault"
)

// How secrets are written, from Standard Webhooks 1.0.0, "Signature scheme".
const (
	prefixSymmetric = "whsec_"
	prefixPrivate   = "whsk_"
	prefixPublic    = "whpk_"
)

// How long a secret is. The bounds of a symmetric key are those of Standard Webhooks 1.0.0 (192 to 512 bits).
const (
	minSymmetricBytes = 24
	maxSymmetricBytes = 64
	minTextChars      = 16
	maxTextChars      = 256
)

// ParseSecret reads a secret that its owner chose or that was stored. It is strict: what it takes is, byte for byte,
// what signs and what Reveal shows, save that a standard-ed25519 key may come as its 32-byte seed or as the 64 bytes of
// seed and public key and is always shown as the latter. A refusal is an Invalid fault that names what is wrong and
// never repeats any of the secret.
func ParseSecret(scheme Scheme, text string) (Secret, error) {
	if err := checkEdges(text); err != nil {
		return Secret{}, err
	}
	switch scheme {
	case Standard:
		return parseSymmetric(text)
	case StandardEd25519:
		return parsePrivate(text)
	case Stripe, GitHub, TimestampedHex:
		return parseText(scheme, text)
	}
	return Secret{}, fmt.Errorf("signer: no secret for the unknown scheme %q", string(scheme))
}

func refuse(format string, args ...any) error { return fault.New(fault.Invalid, format, args...) }

// checkEdges refuses what copy and paste leaves behind. Trimming it would be kinder and worse: the owner's own copy
// would keep the blank and sign something else.
func checkEdges(text string) error {
	switch {
	case text == "":
		return refuse("the secret is empty")
	case strings.TrimFunc(text, unicode.IsSpace) == "":
		return refuse("the secret is nothing but blanks")
	case strings.TrimFunc(text, unicode.IsSpace) != text:
		return refuse("the secret has a blank or a line break before or after it; give it without")
	}
	return nil
}

func parseSymmetric(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, prefixSymmetric)
	if !ok {
		return Secret{}, wrongPrefix(text, prefixSymmetric)
	}
	raw, err := decodeStrictly(encoded, prefixSymmetric)
	if err != nil {
		return Secret{}, err
	}
	if len(raw) < minSymmetricBytes || len(raw) > maxSymmetricBytes {
		return Secret{}, refuse("the secret holds a key of %d bytes; it has to be %d to %d bytes, in base64 after %q",
			len(raw), minSymmetricBytes, maxSymmetricBytes, prefixSymmetric)
	}
	return seal(&key{scheme: Standard, text: text, raw: raw}), nil
}

func parsePrivate(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, prefixPrivate)
	if !ok {
		return Secret{}, wrongPrefix(text, prefixPrivate)
	}
	raw, err := decodeStrictly(encoded, prefixPrivate)
	if err != nil {
		return Secret{}, err
	}
	switch len(raw) {
	case ed25519.SeedSize:
		return newEd25519Secret(ed25519.NewKeyFromSeed(raw)), nil
	case ed25519.PrivateKeySize:
		private := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
		if !bytes.Equal(private, raw) {
			return Secret{}, refuse("the private key's second half is not the public key of its first half")
		}
		return newEd25519Secret(private), nil
	}
	return Secret{}, refuse("the private key is %d bytes; it has to be the %d-byte Ed25519 seed, "+
		"or the seed and the public key, %d bytes, in base64 after %q",
		len(raw), ed25519.SeedSize, ed25519.PrivateKeySize, prefixPrivate)
}

// newEd25519Secret writes the key as seed and public key: the form that other senders of Standard Webhooks take.
func newEd25519Secret(private ed25519.PrivateKey) Secret {
	text := prefixPrivate + base64.StdEncoding.EncodeToString(private)
	return seal(&key{scheme: StandardEd25519, text: text, private: private})
}

func parsePublic(text string) (ed25519.PublicKey, error) {
	raw, err := decodeStrictly(strings.TrimPrefix(text, prefixPublic), prefixPublic)
	if err != nil {
		return nil, err
	}
	if len(raw) != ed25519.PublicKeySize {
		return nil, refuse("the public key is %d bytes; it has to be %d bytes, in base64 after %q",
			len(raw), ed25519.PublicKeySize, prefixPublic)
	}
	return raw, nil
}

// parseText takes the schemes whose key is the text itself. Only printable ASCII: a letter beyond it has several
// encodings that look the same, and the two sides would sign with different bytes.
func parseText(scheme Scheme, text string) (Secret, error) {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return Secret{}, refuse("the secret holds a character that is not printable ASCII")
		}
	}
	if len(text) < minTextChars || len(text) > maxTextChars {
		return Secret{}, refuse("the secret is %d characters long; it has to be %d to %d",
			len(text), minTextChars, maxTextChars)
	}
	return seal(&key{scheme: scheme, text: text, raw: []byte(text)}), nil
}

func wrongPrefix(text, want string) error {
	switch {
	case strings.HasPrefix(text, "v1,") || strings.HasPrefix(text, "v1a,"):
		return refuse("the secret begins with a signature's version; leave out all that stands before %q", want)
	case strings.HasPrefix(text, prefixPublic):
		return refuse("this is a public key, which cannot sign; the secret has to begin with %q", want)
	case strings.HasPrefix(text, prefixPrivate):
		return refuse("this is a private key of the scheme %s; here the secret has to begin with %q", StandardEd25519, want)
	case strings.HasPrefix(text, prefixSymmetric):
		return refuse("this is a secret of the scheme %s; here it has to begin with %q", Standard, want)
	}
	return refuse("the secret has to begin with %q", want)
}

// decodeStrictly takes the one base64 spelling of some bytes: standard alphabet, padded, no line breaks, no stray bits
// (RFC 4648, 3.5). Go's decoder skips line breaks even when strict, hence the comparison.
func decodeStrictly(encoded, prefix string) ([]byte, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	switch {
	case err == nil && base64.StdEncoding.EncodeToString(raw) == encoded:
		if len(raw) == 0 {
			return nil, refuse("there is no key after %q", prefix)
		}
		return raw, nil
	case strings.ContainsAny(encoded, "-_"):
		return nil, refuse("what follows %q is in the URL-safe alphabet; standard base64 has + and / instead of - and _", prefix)
	case err != nil && isUnpadded(encoded):
		return nil, refuse("what follows %q is base64 without its padding; add the = signs at the end", prefix)
	}
	return nil, refuse("what follows %q is not standard base64", prefix)
}

func isUnpadded(encoded string) bool {
	_, err := base64.RawStdEncoding.Strict().DecodeString(encoded)
	return err == nil
}
