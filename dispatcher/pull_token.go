package dispatcher

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// A token names one lease of one delivery, and carries what is to be kept of the attempt: an acknowledgement need not read the
// event again, nor did the poll have to write more than the lease. Whoever has it reads nothing in it that did not come along
// with it. It is marked together with the endpoint that it was given out for, so that at another it is nobody's.

// Marker makes and checks marks. It is a seal.Box.
type Marker interface {
	Mark(message []byte) (keyID string, mark []byte, err error)
	Marked(keyID string, message, mark []byte) bool
}

// Marks are the tokens' marks.
type Marks struct{ Marker }

const (
	tokenForm  = 1  // the first byte: how the rest is laid out
	tokenHead  = 1  // that
	tokenFacts = 42 // the numbers, which are always there; the signature behind them is of any length
	tokenKey   = 4
	tokenMark  = 32
	maxToken   = 4096 // characters
)

// errToken is all that is said of a token that is none of ours.
var errToken = errors.New("it is no token of this endpoint")

// token spells out the lease that r was fetched under.
func (m Marks) token(r result) (string, error) {
	c := r.claimed
	b := []byte{tokenForm}
	b = binary.BigEndian.AppendUint64(b, uint64(c.ID))             //nolint:gosec // back and forth
	b = binary.BigEndian.AppendUint64(b, uint64(c.EventID))        //nolint:gosec // the same
	b = binary.BigEndian.AppendUint64(b, uint64(r.owner))          //nolint:gosec // the same
	b = binary.BigEndian.AppendUint64(b, uint64(r.signedAt))       //nolint:gosec // the same
	b = binary.BigEndian.AppendUint32(b, uint32(c.Attempts))       //nolint:gosec // came from an integer
	b = binary.BigEndian.AppendUint32(b, uint32(r.target.Version)) //nolint:gosec // the same
	b = binary.BigEndian.AppendUint16(b, uint16(c.Origin))         //nolint:gosec // one of three
	b = append(b, r.signature...)
	keyID, mark, err := m.Mark(markedFor(c.endpoint(), b))
	if err != nil {
		return "", err //nolint:wrapcheck // wrapped by who packs
	}
	key, err := hex.DecodeString(keyID)
	if err != nil || len(key) != tokenKey || len(mark) != tokenMark {
		return "", errors.New("a mark has another form than a token has room for")
	}
	return base64.RawURLEncoding.EncodeToString(append(append(b, key...), mark...)), nil
}

// read gives the result that an acknowledgement of the lease would be, but for when it came.
func (m Marks) read(endpoint, tenant id.ID, token string) (result, error) {
	if len(token) > maxToken {
		return result{}, errToken
	}
	all, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(all) < tokenHead+tokenFacts+tokenKey+tokenMark || all[0] != tokenForm {
		return result{}, errToken
	}
	body, rest := all[:len(all)-tokenKey-tokenMark], all[len(all)-tokenKey-tokenMark:]
	if !m.Marked(hex.EncodeToString(rest[:tokenKey]), markedFor(endpoint, body), rest[tokenKey:]) {
		return result{}, errToken
	}
	f := body[tokenHead:]
	number := func(at int) int64 { return int64(binary.BigEndian.Uint64(f[at:])) } //nolint:gosec // as it was written
	r := result{
		claimed: claimed{
			Shard: endpoint.Shard, TenantID: tenant.N, EndpointID: endpoint.N, Pull: true, ID: number(0), EventID: number(8),
			Attempts: int(binary.BigEndian.Uint32(f[32:])),
			Origin:   origin(binary.BigEndian.Uint16(f[40:])), //nolint:gosec // one of three
		},
		owner: number(16), attemptID: number(16), signedAt: number(24),
		target:    &subscriptions.Target{Version: int(binary.BigEndian.Uint32(f[36:]))},
		signature: string(f[tokenFacts:]),
	}
	return r, nil
}

func markedFor(endpoint id.ID, body []byte) []byte {
	return append([]byte("token of "+id.Endpoint.Format(endpoint)+"\x00"), body...)
}
