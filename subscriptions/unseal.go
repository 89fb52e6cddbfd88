package subscriptions

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/clienttls"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
)

// sealedParts are what of a target is encrypted, as it is stored.
type sealedParts struct {
	scheme       signer.Scheme // what the secrets are read by
	headersKeyID string        // "": there are no headers
	headers      []byte
	secrets      []sealedSecret // newest first
	tls          sealedTLS
}

// sealedTLS is what an endpoint has for TLS; "" is what it has not.
type sealedTLS struct {
	ca, certificate, keyID string
	key                    []byte
}

func (t sealedTLS) size() int { return len(t.ca) + len(t.certificate) }

func (t sealedTLS) equal(o sealedTLS) bool {
	return t.ca == o.ca && t.certificate == o.certificate && t.keyID == o.keyID && bytes.Equal(t.key, o.key)
}

type sealedSecret struct {
	keyID  string
	sealed []byte
	ends   *time.Time
}

// equal reports whether both open to the same. A seal has a random nonce: what is sealed again differs.
func (p sealedParts) equal(o sealedParts) bool {
	return p.scheme == o.scheme && p.headersKeyID == o.headersKeyID && bytes.Equal(p.headers, o.headers) && p.tls.equal(o.tls) &&
		slices.EqualFunc(p.secrets, o.secrets, func(a, b sealedSecret) bool {
			return a.keyID == b.keyID && bytes.Equal(a.sealed, b.sealed) &&
				(a.ends == b.ends || a.ends != nil && b.ends != nil && a.ends.Equal(*b.ends))
		})
}

// unsealed is what sealedParts came to.
type unsealed struct {
	from    sealedParts
	headers []signer.Header
	secrets []TimedSecret
	tls     *clienttls.Identity
	err     error
}

const (
	// maxUnsealed bounds how many endpoints' parts are remembered: about 10 MiB.
	maxUnsealed = 1 << 14
	// maxUnsealedTLS bounds, in bytes of PEM, what of them is TLS; parsed it takes some times as much.
	maxUnsealedTLS = 16 << 20
)

// unsealedCache remembers by endpoint what was opened last. Targets are read again every second, and nearly never change.
type unsealedCache struct {
	mu  sync.Mutex
	by  map[id.ID]unsealed
	tls int // bytes of PEM in by
}

func (c *unsealedCache) get(e id.ID, parts sealedParts) (unsealed, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u, there := c.by[e]
	return u, there && u.from.equal(parts)
}

func (c *unsealedCache) put(e id.ID, u unsealed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(e)
	if c.by == nil || len(c.by) >= maxUnsealed || c.tls+u.from.tls.size() > maxUnsealedTLS {
		c.by, c.tls = map[id.ID]unsealed{}, 0 // with more endpoints than that, most reads open; nothing worse
	}
	c.by[e] = u
	c.tls += u.from.tls.size()
}

func (c *unsealedCache) forget(e id.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(e)
}

// drop forgets an endpoint, under the lock.
func (c *unsealedCache) drop(e id.ID) {
	c.tls -= c.by[e].from.tls.size()
	delete(c.by, e)
}

// unseal puts a target's headers, secrets and TLS in place, or says why there are none.
func (s *Store) unseal(t *Target, parts sealedParts) {
	if t.Deleted {
		s.unsealed.forget(t.Endpoint)
		return
	}
	u, known := s.unsealed.get(t.Endpoint, parts)
	if !known {
		u = s.openParts(t.Endpoint, parts)
		s.unsealed.put(t.Endpoint, u)
	}
	t.Headers, t.Secrets, t.TLS, t.Err = u.headers, u.secrets, u.tls, u.err
}

func (s *Store) openParts(e id.ID, parts sealedParts) unsealed {
	u := unsealed{from: parts}
	if parts.headersKeyID != "" {
		if u.headers, u.err = s.openHeaders(e, &parts.headersKeyID, parts.headers); u.err != nil {
			return u
		}
	}
	if u.tls, u.err = s.identity(e, parts.tls); u.err != nil {
		return u
	}
	u.secrets, u.err = s.openSecrets(e, parts)
	return u
}

// openSecrets gives what can sign. An old secret that does not open is done without, so that it takes nothing down with
// it; the current one has to open, since it is the one that receivers are to know.
func (s *Store) openSecrets(e id.ID, parts sealedParts) ([]TimedSecret, error) {
	if len(parts.secrets) == 0 || parts.secrets[0].ends != nil {
		return nil, errors.New("the endpoint has no current secret")
	}
	out := make([]TimedSecret, 0, len(parts.secrets))
	for i, p := range parts.secrets {
		secret, err := s.openSecret(e, parts.scheme, p.keyID, p.sealed)
		if err != nil && i == 0 {
			return nil, err
		}
		if err == nil {
			out = append(out, TimedSecret{Secret: secret, ExpiresAt: p.ends})
		}
	}
	return out, nil
}
