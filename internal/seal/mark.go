package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
)

// markInfo sets the keys of marks apart from the keys that they are made of, and from what else may be made of those.
const markInfo = "postrider marks"

// Mark gives what shows that a message is ours: HMAC-SHA256 under a key made of the first one. It is for what goes out and
// comes back and hides nothing. Unlike a seal there may be any number of them.
func (b *Box) Mark(message []byte) (keyID string, mark []byte, err error) {
	if len(b.ids) == 0 {
		return "", nil, errors.New("a box that was not made by New has no key to mark with")
	}
	return b.ids[0], mac(b.mac[b.ids[0]], message), nil
}

// Marked reports whether a mark is Mark's of this very message. Under a key that is not among ours none is.
func (b *Box) Marked(keyID string, message, mark []byte) bool {
	key, ours := b.mac[keyID]
	return ours && hmac.Equal(mark, mac(key, message))
}

func mac(key, message []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(message)
	return h.Sum(nil)
}
