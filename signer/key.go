package signer

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"sync"
)

// key is a secret ready to sign. Exactly one of raw and private is set, and raw is never empty.
type key struct {
	scheme  Scheme
	text    string             // as shown and stored
	raw     []byte             // the HMAC key
	private ed25519.PrivateKey // seed and public key

	// states keeps HMACs that have swallowed the key, so that an endpoint's second and later attempts neither hash the
	// key again nor allocate.
	states sync.Pool
}

type macState struct {
	hash hash.Hash
	head []byte // "<id>.<timestamp>." of the message; kept, because a buffer handed to a hash.Hash lives on the heap
	sum  [sha256.Size]byte
}

// mac gives HMAC-SHA256 over the body, preceded by the id and by the timestamp, each with its dot, where they are not
// empty.
func (k *key) mac(id, timestamp string, body []byte) [sha256.Size]byte {
	state, ok := k.states.Get().(*macState)
	if ok {
		state.hash.Reset()
	} else {
		state = &macState{hash: hmac.New(sha256.New, k.raw)}
	}
	if state.head = appendHead(state.head[:0], id, timestamp); len(state.head) > 0 {
		state.hash.Write(state.head)
	}
	state.hash.Write(body)
	state.hash.Sum(state.sum[:0])
	sum := state.sum
	k.states.Put(state)
	return sum
}

func appendHead(dst []byte, id, timestamp string) []byte {
	if id != "" {
		dst = append(append(dst, id...), '.')
	}
	if timestamp != "" {
		dst = append(append(dst, timestamp...), '.')
	}
	return dst
}

// signedBytes lays out "<id>.<timestamp>.<body>" in one piece: Ed25519 reads its message twice (RFC 8032, 5.1.6), so
// unlike an HMAC it cannot take it bit by bit.
func signedBytes(id, timestamp string, body []byte) []byte {
	message := make([]byte, 0, len(id)+len(timestamp)+len(body)+2)
	return append(appendHead(message, id, timestamp), body...)
}
