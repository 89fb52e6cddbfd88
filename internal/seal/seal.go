// Package seal encrypts what must not be readable in the database, such as endpoints' secrets: AES-256-GCM under one of
// the operator's keys (`secrets.keys`), each value bound to the thing it belongs to.
//
// It reads no configuration, holds nothing but the keys it is given, and knows no table: the caller stores the key's id
// beside the sealed bytes. It does not re-encrypt: a value opens as long as the key it was sealed under is among the
// keys, and is sealed under the first key the next time it is written.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/postrider/postrider/internal/id"
)

// KeySize is the length of a key in bytes: AES-256.
const KeySize = 32

// Box seals and opens. It may be used by several goroutines at once.
type Box struct {
	first string                 // the id of the key that seals
	open  map[string]cipher.AEAD // by key id
}

// New makes a box from keys of 32 bytes each. The first one seals, all of them open. An error names the key by its
// place in the list and never shows any of it.
func New(keys [][]byte) (*Box, error) {
	if len(keys) == 0 {
		return nil, errors.New("no key to encrypt secrets with")
	}
	b := &Box{first: keyID(keys[0]), open: make(map[string]cipher.AEAD, len(keys))}
	for i, key := range keys {
		if len(key) != KeySize {
			return nil, fmt.Errorf("encryption key %d has %d bytes, not %d", i+1, len(key), KeySize)
		}
		name := keyID(key)
		if _, taken := b.open[name]; taken {
			return nil, fmt.Errorf("encryption key %d is there twice, or has the id of another: %s", i+1, name)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("encryption key %d: %w", i+1, err)
		}
		// Draws each nonce at random and puts its 12 bytes in front. NIST SP 800-38D, 8.3, allows 2^32 of them under one
		// key, which is far beyond what owners of endpoints ever save.
		if b.open[name], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, fmt.Errorf("encryption key %d: %w", i+1, err)
		}
	}
	return b, nil
}

// Seal encrypts plain under the first key. additional is not stored: who opens has to give the same again, so that a
// sealed value moved to another row stays shut. The result is 28 bytes longer than plain.
func (b *Box) Seal(plain, additional []byte) (keyID string, sealed []byte, err error) {
	aead, ok := b.open[b.first]
	if !ok {
		return "", nil, errors.New("a box that was not made by New has no key to seal with")
	}
	return b.first, aead.Seal(nil, nil, plain, additional), nil //nolint:gosec // no nonce given: it draws its own
}

// Open decrypts what Seal made. The error says which of the two things is wrong: the key is not among ours, or the value
// was changed, moved or cut short.
func (b *Box) Open(keyID string, sealed, additional []byte) ([]byte, error) {
	aead, ok := b.open[keyID]
	if !ok {
		return nil, fmt.Errorf("it was encrypted under the key %q, which is not among secrets.keys", keyID)
	}
	plain, err := aead.Open(nil, nil, sealed, additional)
	if err != nil {
		return nil, fmt.Errorf("it does not open under the key %q: %w", keyID, err)
	}
	return plain, nil
}

// EndpointAD gives the additional data of an endpoint's secrets and headers: its id as it is spelled outside.
func EndpointAD(e id.ID) []byte { return []byte(id.Endpoint.Format(e)) }

// EndpointTLSKeyAD gives that of the key of an endpoint's client certificate: another one, so that neither can be put in the
// other's place.
func EndpointTLSKeyAD(e id.ID) []byte { return []byte(id.Endpoint.Format(e) + "/tls/key") }

// keyID names a key without giving it away: 32 bits of its hash, in hex.
func keyID(key []byte) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:4])
}
