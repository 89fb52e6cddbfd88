// Package seal encrypts what must not be readable in the database, such as endpoints' secrets: AES-256-GCM under one of
// the operator's keys (`secrets.keys`), each value bound to the thing it belongs to.
//
// It reads no configuration, holds nothing but the keys it is given, and knows no table: the caller stores the key's id
// beside the sealed bytes. It does not re-encrypt: a value opens as long as the key it was sealed under is among the
// keys, and is sealed under the first key the next time it is written, or when the caller has it rewritten.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/postrider/postrider/internal/id"
)

// KeySize is the length of a key in bytes: AES-256.
const KeySize = 32

// Box seals and opens. It may be used by several goroutines at once.
type Box struct {
	ids  []string               // of the keys, as they were given; the first one seals
	open map[string]cipher.AEAD // by key id
	mac  map[string][]byte      // by key id, the keys that tickets are marked with
}

// New makes a box from keys of 32 bytes each. The first one seals, all of them open. An error names the key by its
// place in the list and never shows any of it.
func New(keys [][]byte) (*Box, error) {
	if len(keys) == 0 {
		return nil, errors.New("no key to encrypt secrets with")
	}
	b := &Box{open: make(map[string]cipher.AEAD, len(keys)), mac: make(map[string][]byte, len(keys))}
	for i, key := range keys {
		if len(key) != KeySize {
			return nil, fmt.Errorf("encryption key %d has %d bytes, not %d", i+1, len(key), KeySize)
		}
		name := keyID(key)
		if _, taken := b.open[name]; taken {
			return nil, fmt.Errorf("encryption key %d is there twice, or has the id of another: %s", i+1, name)
		}
		b.ids = append(b.ids, name)
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("encryption key %d: %w", i+1, err)
		}
		// Draws each nonce at random and puts its 12 bytes in front. NIST SP 800-38D, 8.3, allows 2^32 of them under one
		// key, which is far beyond what owners of endpoints ever save.
		if b.open[name], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, fmt.Errorf("encryption key %d: %w", i+1, err)
		}
		if b.mac[name], err = hkdf.Key(sha256.New, key, nil, markInfo, sha256.Size); err != nil {
			return nil, fmt.Errorf("encryption key %d: %w", i+1, err)
		}
	}
	return b, nil
}

// Seal encrypts plain under the first key. additional is not stored: who opens has to give the same again, so that a
// sealed value moved to another row stays shut. The result is 28 bytes longer than plain.
func (b *Box) Seal(plain, additional []byte) (keyID string, sealed []byte, err error) {
	if len(b.ids) == 0 {
		return "", nil, errors.New("a box that was not made by New has no key to seal with")
	}
	sealed, err = b.SealUnder(b.ids[0], plain, additional)
	return b.ids[0], sealed, err
}

// SealUnder is Seal under a key that need not be the first.
func (b *Box) SealUnder(keyID string, plain, additional []byte) (sealed []byte, err error) {
	aead, ok := b.open[keyID]
	if !ok {
		return nil, fmt.Errorf("the key %q is not among secrets.keys", keyID)
	}
	return aead.Seal(nil, nil, plain, additional), nil //nolint:gosec // no nonce given: it draws its own
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

// KeyIDs gives the ids of the keys, in the order in which they were given: the first one is that of the key that seals.
func (b *Box) KeyIDs() []string { return slices.Clone(b.ids) }

// Has reports whether a key is among ours.
func (b *Box) Has(keyID string) bool {
	_, ours := b.open[keyID]
	return ours
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
