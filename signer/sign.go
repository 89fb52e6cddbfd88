package signer

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
)

// What Sign refuses. None of it is the endpoint owner's doing: secrets, ids and types are checked where they come in.
var (
	ErrNoSecret   = errors.New("signer: no secret to sign with")
	ErrBadMessage = errors.New("signer: the message cannot be signed")
)

// Message is what one attempt signs.
type Message struct {
	EventID    string // no dot in it, since a dot ends it in the signed bytes
	DeliveryID string // needed by github and timestamped-hex
	EventType  string // needed by github
	Timestamp  int64  // when this attempt is signed, Unix seconds
	Body       []byte // the very bytes that are sent; not kept and not changed
}

// Sign gives the headers with which a receiver verifies m: webhook-id and webhook-timestamp, which every scheme sends,
// and then the scheme's own. secrets are newest first; each signs where the scheme has room for several signatures,
// else the newest alone. headerName is the endpoint's own name for stripe's header ("" for the default); the other
// schemes ignore it.
//
// Without a secret, with one of another scheme, or with a value that would break a header or move a border in the
// signed bytes, there is an error and no header.
//
// An attempt of the standard scheme with a secret that has signed before takes three allocations, whatever the body's
// size: the slice, the timestamp and the signature.
func Sign(scheme Scheme, headerName string, secrets []Secret, m Message) ([]Header, error) {
	if scheme == Stripe {
		if err := CheckSignatureHeader(SignatureHeader(scheme, headerName)); err != nil {
			return nil, fmt.Errorf("signer: name of the signature's header: %w", err)
		}
	}
	timestamp := strconv.FormatInt(m.Timestamp, 10)
	signature, err := signature(scheme, secrets, timestamp, m)
	if err != nil {
		return nil, err
	}
	return headers(scheme, headerName, timestamp, signature, m), nil
}

// Headers lays out what Sign gives, around a signature that was made before: how an attempt looked can be shown without
// its secrets. Of m it needs no body.
func Headers(scheme Scheme, headerName, signature string, m Message) []Header {
	return headers(scheme, headerName, strconv.FormatInt(m.Timestamp, 10), signature, m)
}

// Signature picks out of what Sign gave the one value that Headers cannot lay out by itself.
func Signature(scheme Scheme, headerName string, signed []Header) string {
	name := SignatureHeader(scheme, headerName)
	for _, h := range signed {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// signature gives the value of the scheme's signature header.
func signature(scheme Scheme, secrets []Secret, timestamp string, m Message) (string, error) {
	if err := checkSecrets(scheme, secrets); err != nil {
		return "", err
	}
	if err := m.check(scheme); err != nil {
		return "", err
	}
	switch scheme {
	case Standard:
		return standardSignature(secrets, timestamp, m), nil
	case StandardEd25519:
		return ed25519Signature(secrets, timestamp, m), nil
	case Stripe:
		return stripeSignature(secrets, timestamp, m), nil
	case GitHub:
		sum := secrets[0].open().mac("", "", m.Body)
		return "sha256=" + hex.EncodeToString(sum[:]), nil
	case TimestampedHex:
		sum := secrets[0].open().mac("", timestamp, m.Body)
		return hex.EncodeToString(sum[:]), nil
	}
	return "", fmt.Errorf("signer: sign with the unknown scheme %q", string(scheme))
}

func headers(scheme Scheme, headerName, timestamp, signature string, m Message) []Header {
	out := make([]Header, 0, 5) // two for all, three for the scheme at most
	out = append(out, Header{HeaderID, m.EventID}, Header{HeaderTimestamp, timestamp})
	if scheme == TimestampedHex {
		out = append(out, Header{HeaderHexID, m.DeliveryID}, Header{HeaderHexTimestamp, timestamp})
	}
	out = append(out, Header{SignatureHeader(scheme, headerName), signature})
	if scheme == GitHub {
		out = append(out, Header{HeaderGitHubDelivery, m.DeliveryID}, Header{HeaderGitHubEvent, m.EventType})
	}
	return out
}

// standardSignature gives "v1,<base64>", several with a blank between (Standard Webhooks 1.0.0, "Webhook headers").
func standardSignature(secrets []Secret, timestamp string, m Message) string {
	var room [128]byte // two signatures of 47 characters, as during a rotation, without leaving the stack
	out := room[:0]
	for i, s := range secrets {
		if i > 0 {
			out = append(out, ' ')
		}
		sum := s.open().mac(m.EventID, timestamp, m.Body)
		out = base64.StdEncoding.AppendEncode(append(out, "v1,"...), sum[:])
	}
	return string(out)
}

func ed25519Signature(secrets []Secret, timestamp string, m Message) string {
	message := signedBytes(m.EventID, timestamp, m.Body)
	var out []byte
	for i, s := range secrets {
		if i > 0 {
			out = append(out, ' ')
		}
		out = base64.StdEncoding.AppendEncode(append(out, "v1a,"...), ed25519.Sign(s.open().private, message))
	}
	return string(out)
}

func stripeSignature(secrets []Secret, timestamp string, m Message) string {
	var room [192]byte // the timestamp and two signatures of 68 characters
	out := append(append(room[:0], "t="...), timestamp...)
	for _, s := range secrets {
		sum := s.open().mac("", timestamp, m.Body)
		out = hex.AppendEncode(append(out, ",v1="...), sum[:])
	}
	return string(out)
}

func checkSecrets(scheme Scheme, secrets []Secret) error {
	if len(secrets) == 0 {
		return ErrNoSecret
	}
	for _, s := range secrets {
		switch {
		case s.open == nil:
			return fmt.Errorf("%w: one of the secrets is unset", ErrNoSecret)
		case s.open().scheme != scheme:
			return fmt.Errorf("%w: a secret of the scheme %q cannot sign as %q",
				ErrNoSecret, string(s.open().scheme), string(scheme))
		}
	}
	return nil
}

func (m *Message) check(scheme Scheme) error {
	switch {
	case m.EventID == "":
		return fmt.Errorf("%w: it has no event id", ErrBadMessage)
	case m.DeliveryID == "" && (scheme == GitHub || scheme == TimestampedHex):
		return fmt.Errorf("%w: it has no delivery id", ErrBadMessage)
	case m.EventType == "" && scheme == GitHub:
		return fmt.Errorf("%w: it has no event type", ErrBadMessage)
	case !isID(m.EventID):
		return fmt.Errorf("%w: its event id holds a dot, a blank or a character that is not printable ASCII", ErrBadMessage)
	case m.DeliveryID != "" && !isID(m.DeliveryID):
		return fmt.Errorf("%w: its delivery id holds a dot, a blank or a character that is not printable ASCII", ErrBadMessage)
	case !isVisible(m.EventType):
		return fmt.Errorf("%w: its event type holds a blank or a character that is not printable ASCII", ErrBadMessage)
	case m.Timestamp <= 0:
		return fmt.Errorf("%w: its timestamp is not after 1970", ErrBadMessage)
	}
	return nil
}

// isVisible reports whether text is visible ASCII throughout: safe as a header's value and without outer blanks.
func isVisible(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// isID reports whether text can stand before a dot in the signed bytes. With a dot of its own, "a.1" + "." + "2.x" and
// "a" + "." + "1.2.x" would be the same bytes and one signature would do for two messages.
func isID(text string) bool {
	for i := range len(text) {
		if text[i] == '.' {
			return false
		}
	}
	return text != "" && isVisible(text)
}
