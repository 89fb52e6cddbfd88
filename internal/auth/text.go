package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

const (
	prefix  = "prk_"
	keySize = 32 // bytes of randomness in a key that we make
	// hintLen characters of a key may be shown: four beyond the prefix, which leave 38 characters (228 bits) unknown.
	hintLen = len(prefix) + 4

	// Bounds of a key's text, in characters. A key of ours has 47; the least is for one that an operator configures, whose
	// strength is theirs to choose.
	minText = 8
	maxText = 255
)

// newText makes a key: `prk_` and 43 characters of unpadded base64url.
func newText() string { return random(prefix) }

func random(prefix string) string {
	raw := make([]byte, keySize)
	_, _ = rand.Read(raw) // never fails: crypto/rand ends the process rather than give an error (Go 1.24)
	return prefix + base64.RawURLEncoding.EncodeToString(raw)
}

func hint(text string) string { return text[:hintLen] + "…" }

// hashOf is what is stored of a key. Keys are long and random, so that a slow hash would buy nothing and would cost
// every request.
func hashOf(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }

// plausible reports whether text can be a key at all, so that garbage costs no look into the database.
func plausible(text string) bool {
	if len(text) < minText || len(text) > maxText {
		return false
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}
