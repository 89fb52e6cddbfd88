package egress

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/clienttls"
)

const (
	// ownIdle is how long the connections of an identity outlive its last request: longer than any attempt takes, so that what
	// is closed then is not in use.
	ownIdle = 2 * time.Minute
	// maxOwn bounds the transports of identities. One more, and the one that was used longest ago is closed.
	maxOwn = 1024
	// ownSessions bounds the TLS sessions that are kept for one identity, which talks to few hosts.
	ownSessions = 16
)

// owned keeps a transport for each TLS identity: connections and TLS sessions of one are never used for another, nor for
// endpoints that have none of their own.
type owned struct {
	config Config
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	now    func() time.Time

	mu    sync.Mutex
	by    map[clienttls.Fingerprint]*ownTransport
	sweep *time.Timer // set while there are any
}

type ownTransport struct {
	*http.Transport
	used time.Time // last
}

// DoAs is Do for an endpoint that has TLS of its own; nil: it has not.
func (c *Client) DoAs(req *http.Request, as *clienttls.Identity) (*http.Response, error) {
	if as == nil {
		return c.do(c.transport, req)
	}
	return c.do(c.own.transport(as), req)
}

// transport gives the identity's own one.
func (o *owned) transport(as *clienttls.Identity) *http.Transport {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	t, ok := o.by[as.Fingerprint()]
	if !ok {
		o.makeRoom()
		t = &ownTransport{Transport: o.make(as)}
		o.by[as.Fingerprint()] = t
		if o.sweep == nil {
			o.sweep = time.AfterFunc(ownIdle, o.closeUnused)
		}
	}
	t.used = now
	return t.Transport
}

// makeRoom closes the one that was used longest ago if there are too many. What it has on its way goes on, and is closed after.
func (o *owned) makeRoom() {
	if len(o.by) < maxOwn {
		return
	}
	var oldest clienttls.Fingerprint
	var used time.Time
	for fingerprint, t := range o.by {
		if used.IsZero() || t.used.Before(used) {
			oldest, used = fingerprint, t.used
		}
	}
	o.drop(oldest)
}

// drop closes a transport that is not used any more. The lock is held.
func (o *owned) drop(fingerprint clienttls.Fingerprint) {
	o.by[fingerprint].CloseIdleConnections()
	delete(o.by, fingerprint)
}

// closeUnused closes what was not used of late: an endpoint that was deleted, or has another key now, leaves none of the old
// one behind.
func (o *owned) closeUnused() {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	for fingerprint, t := range o.by {
		if now.Sub(t.used) >= ownIdle {
			o.drop(fingerprint)
		}
	}
	if o.sweep = nil; len(o.by) > 0 {
		o.sweep = time.AfterFunc(ownIdle, o.closeUnused)
	}
}

func (o *owned) closeAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sweep != nil {
		o.sweep.Stop()
		o.sweep = nil
	}
	for fingerprint := range o.by {
		o.drop(fingerprint)
	}
}

func (o *owned) make(as *clienttls.Identity) *http.Transport {
	t := newTransport(o.config)
	t.DialContext = o.dial
	as.Configure(t.TLSClientConfig)
	t.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(ownSessions)
	if proxy := o.config.ProxyURL; proxy != nil && proxy.Scheme == "https" {
		t.DialTLSContext = o.dialProxy(proxy)
	}
	return t
}

// dialProxy connects to an https proxy as every other request does. Left to itself the transport would take the endpoint's
// configuration: its authorities have nothing to say about our proxy, and its certificate is not the proxy's to see.
func (o *owned) dialProxy(proxy *url.URL) func(ctx context.Context, network, address string) (net.Conn, error) {
	cfg := clientTLS(o.config.TLS)
	cfg.ServerName, cfg.NextProtos = proxy.Hostname(), nil
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := o.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, o.config.ConnectTimeout)
		defer cancel()
		secure := tls.Client(c, cfg)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = c.Close()
			return nil, err //nolint:wrapcheck // the transport says that it is the proxy's
		}
		return secure, nil
	}
}
