package egress

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/postrider/postrider/internal/clienttls"
	"github.com/postrider/postrider/internal/fault"
)

const (
	defaultConnectTimeout = 5 * time.Second
	defaultHeaderBytes    = 64 << 10

	// maxRedials bounds how many dead kept-alive connections one Do may run into.
	maxRedials = 3
)

// Config is what a Client is made of. The zero value is the production setting.
type Config struct {
	Policy

	// ConnectTimeout bounds DNS and TCP connect together, and then the TLS handshake once more. 0 is 5 s.
	ConnectTimeout time.Duration
	// ProxyURL sends everything through a proxy (http, https or socks5; userinfo allowed). The environment's proxies are ignored.
	ProxyURL *url.URL
	// MaxHeaderBytes bounds the answer's headers, those of all 1xx answers included (unless the caller's trace has a Got1xxResponse:
	// then each is bounded alone). 0 is 64 KiB.
	MaxHeaderBytes int64
	// Resolver asks the DNS, a burst for one name once: an answer is used for its TTL, and for 10 s at most. nil is net.DefaultResolver.
	Resolver *net.Resolver
	// TLS holds roots, also those for an https proxy. It is copied; verification and TLS 1.2 at least are set on the copy whatever it says.
	TLS *tls.Config
}

// Client sends requests to strangers. It is safe for concurrent use and holds kept-alive connections until
// CloseIdleConnections.
type Client struct {
	policy    Policy
	dialer    *dialer
	transport *http.Transport // of all endpoints without TLS of their own
	own       *owned
}

// New makes a Client.
func New(cfg Config) *Client {
	if cfg.ConnectTimeout <= 0 {
		cfg.ConnectTimeout = defaultConnectTimeout
	}
	if cfg.MaxHeaderBytes <= 0 {
		cfg.MaxHeaderBytes = defaultHeaderBytes
	}
	c := &Client{policy: cfg.Policy}
	c.dialer = &dialer{policy: &c.policy, timeout: cfg.ConnectTimeout, proxied: cfg.ProxyURL != nil}
	c.dialer.names = newNames(cfg.Resolver, cfg.ConnectTimeout)
	c.transport = newTransport(cfg)
	c.transport.DialContext = c.dialer.dial
	c.own = &owned{config: cfg, dial: c.dialer.dial, now: time.Now, by: map[clienttls.Fingerprint]*ownTransport{}}
	return c
}

func newTransport(cfg Config) *http.Transport {
	t := &http.Transport{
		TLSClientConfig:        clientTLS(cfg.TLS),
		TLSHandshakeTimeout:    cfg.ConnectTimeout,
		ForceAttemptHTTP2:      true, // off by itself with a dialer of one's own
		DisableCompression:     true,
		MaxResponseHeaderBytes: cfg.MaxHeaderBytes,
		// `delivery.max_in_flight` connections at the default, all of them to one host if many tenants share it: with fewer
		// kept than are in flight, each burst would dial anew.
		MaxIdleConns:        1024,
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     60 * time.Second,
		WriteBufferSize:     8 << 10, // headers and a usual payload in one write, one TLS record
		HTTP2: &http.HTTP2Config{
			// By itself a stream takes 4 MiB and a connection 1 GiB before anyone reads; an excerpt is 16 KiB.
			MaxReceiveBufferPerStream:     64 << 10,
			MaxReceiveBufferPerConnection: 1 << 20,
			// A connection whose peer is gone would otherwise swallow attempt after attempt until TCP gives up on it.
			SendPingTimeout: 15 * time.Second,
			PingTimeout:     10 * time.Second,
		},
	}
	if cfg.ProxyURL != nil {
		t.Proxy = http.ProxyURL(cfg.ProxyURL)
		t.OnProxyConnectResponse = proxyRefused
	}
	return t
}

func clientTLS(base *tls.Config) *tls.Config {
	cfg := &tls.Config{}
	if base != nil {
		cfg = base.Clone()
	}
	cfg.InsecureSkipVerify = false
	cfg.MinVersion = max(cfg.MinVersion, tls.VersionTLS12)
	if cfg.ClientSessionCache == nil {
		cfg.ClientSessionCache = tls.NewLRUClientSessionCache(1024)
	}
	return cfg
}

// CloseIdleConnections closes the connections no request is using.
func (c *Client) CloseIdleConnections() {
	c.transport.CloseIdleConnections()
	c.own.closeAll()
}

// Do sends req and gives the answer once its headers are whole; what they say is not looked at. The caller reads and closes
// the body. The context must have a deadline, which also bounds the body. req's body must be of known length
// (ContentLength), and its GetBody, as http.NewRequest sets it for a bytes.Reader, give it afresh.
//
// The request is on the wire once at most. It is dialled anew only if it was handed a kept-alive HTTP/1.1 connection that had
// gone before the first byte, so that nothing was sent; a trace in the context then sees a second GotConn.
//
// A refusal by Policy is fault.Blocked, whether the URL shows it or the dial. A request that cannot be sent as it must is
// fault.Internal. Every other error is Go's own (*net.DNSError, *net.OpError, io.EOF, …, or the context's), one of a TLS handshake
// inside a *HandshakeError. None holds the URL's query or userinfo, nor the address of our name server or one that was refused;
// where there is one of these, the error is a *DetailedError, which has it beside its text.
func (c *Client) Do(req *http.Request) (*http.Response, error) { return c.do(c.transport, req) }

func (c *Client) do(through *http.Transport, req *http.Request) (*http.Response, error) {
	var out http.Request // the copy of req that the transport may have
	if err := c.admit(&out, req); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as a RoundTripper does; what Close says about unsent bytes changes nothing
		}
		return nil, err
	}
	for redials := 0; ; redials++ {
		resp, stale, err := try(through, &out)
		if err == nil {
			return settle(resp), nil
		}
		if !stale || redials == maxRedials || !renewBody(&out, req) {
			return nil, err
		}
	}
}

// admit checks req and makes out of it what goes to the transport.
func (c *Client) admit(out, req *http.Request) error {
	if err := c.policy.checkParsed(req.URL); err != nil {
		return blocked(err)
	}
	if _, ok := req.Context().Deadline(); !ok {
		return fault.New(fault.Internal, "a request without a deadline")
	}
	if err := outgoing(out, req); err != nil {
		return err
	}
	if c.dialer.proxied {
		return c.dialer.checkName(req.Context(), req.URL)
	}
	return nil
}

// try is one passage through the transport. RoundTrip and not http.Client: that one follows redirects, fails on a Location it
// cannot parse even when told not to, makes userinfo a header, and prints the URL in its errors.
func try(through *http.Transport, out *http.Request) (resp *http.Response, stale bool, err error) {
	f := newFlight(out)
	resp, err = through.RoundTrip(&f.request)
	if err == nil {
		// The answer's body still needs the context. It ends with the caller's, which has a deadline.
		return resp, false, nil
	}
	if f.end() {
		return nil, false, errRefused
	}
	return nil, f.stale() && out.Context().Err() == nil, f.explain(err)
}

// settle takes the connection out of the body of a 101: nobody asked for another protocol, and no deadline ends a read there.
func settle(resp *http.Response) *http.Response {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close() // the connection is given up either way
		resp.Body = http.NoBody
	}
	return resp
}

// blocked turns a refusal of any code into fault.Blocked: once a delivery is under way it is one verdict, and a row that
// breaks a rule of form is as little sent as one that leads inside.
func blocked(err error) error {
	var f *fault.Error
	if errors.As(err, &f) && f.Code != fault.Blocked {
		return fault.New(fault.Blocked, "%s", f.Detail)
	}
	return err
}
