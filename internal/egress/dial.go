package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/postrider/postrider/internal/fault"
)

// dialer opens connections for the transport.
type dialer struct {
	policy  *Policy
	timeout time.Duration // DNS and TCP together
	names   *names
	proxied bool // every dial goes to the operator's own proxy
}

// dial checks each address on its socket, after DNS and before connect: the one place that sees where a connection really
// goes, and so also where an answer of the DNS that was kept for a while is judged anew. The addresses of a name are tried in
// turn; when none answers and one of them was refused, the result is that refusal, a *fault.Error without the address in its
// text. A connection to the operator's own proxy is not checked: proxies live inside.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var refused atomic.Pointer[DetailedError] // two families are dialled at once
	var nd net.Dialer
	if !d.proxied {
		nd.ControlContext = func(_ context.Context, network, address string, _ syscall.RawConn) error {
			err := d.policy.checkSocket(network, address)
			if err != nil {
				refused.Store(refusal(address, err))
			}
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	c, err := d.dialName(ctx, &nd, network, address)
	if err != nil {
		if p := refused.Load(); p != nil {
			return nil, p
		}
		return nil, withoutServer(err)
	}
	return newConn(c), nil
}

// dialName is nd.DialContext with the lookup done by d.names. The types of its errors are the same.
func (d *dialer) dialName(ctx context.Context, nd *net.Dialer, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return nd.DialContext(ctx, network, address) // only a proxy's can be such
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nd.DialContext(ctx, network, address)
	}
	addrs, err := d.names.addresses(ctx, host)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	r := route{dialer: nd, network: network, port: port}
	return r.dial(ctx, addrs)
}

// withoutServer takes our own name server's address out of a failed lookup: what an attempt says is read by tenants. The
// types stay *net.OpError and *net.DNSError; they are copies, since lookups share their errors.
func withoutServer(err error) error {
	var dns *net.DNSError
	if !errors.As(err, &dns) || dns.Server == "" {
		return err
	}
	bare := *dns
	bare.Server = ""
	var op *net.OpError
	if !errors.As(err, &op) {
		return &DetailedError{&bare, err.Error()}
	}
	dial := *op
	dial.Err = &bare
	return &DetailedError{&dial, err.Error()}
}

// DetailedError is an error whose text is fit for everybody, with what is not beside it: an address on the inside, or that of
// our name server. A package that must not import this one finds it by its method.
type DetailedError struct {
	Err    error
	detail string
}

func (e *DetailedError) Error() string { return e.Err.Error() }

// Unwrap gives the error as it is without.
func (e *DetailedError) Unwrap() error { return e.Err }

// Detail says all there is to say, to whoever runs Postrider.
func (e *DetailedError) Detail() string { return e.detail }

// refusal is a refused address, which is a host and a port.
func refusal(address string, err error) *DetailedError {
	return &DetailedError{err, "dial " + address + ": " + err.Error()}
}

// checkSocket judges what net.Dialer is about to connect to, given in the form of net.Dialer.Control.
func (p *Policy) checkSocket(network, address string) error {
	if network != "tcp4" && network != "tcp6" {
		return fault.New(fault.Blocked, "the address is not allowed: not TCP")
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fault.New(fault.Blocked, "the address is not allowed: not an address")
	}
	return p.CheckAddr(ap.Addr(), ap.Port())
}

// checkName resolves the host of a URL that a proxy will dial, and refuses it if any address of it is not allowed: the proxy
// may pick any.
func (d *dialer) checkName(ctx context.Context, u *url.URL) error {
	port, err := portOf(u)
	if err != nil {
		return err
	}
	t := readHost(u.Hostname(), u.Host[0] == '[')
	if t.addr.IsValid() {
		return d.policy.CheckAddr(t.addr, port)
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	addrs, err := d.names.addresses(ctx, t.name)
	if err != nil {
		return withoutServer(err)
	}
	for _, a := range addrs {
		addr, _ := netip.AddrFromSlice(a.IP) // what is none is refused
		if err := d.policy.CheckAddr(addr, port); err != nil {
			return refusal(netip.AddrPortFrom(addr, port).String(), err)
		}
	}
	return nil
}

// proxyRefused makes a proxy's No to CONNECT an error of the type a failed dial to the proxy has; by itself the transport
// gives a bare reason phrase.
func proxyRefused(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return &net.OpError{Op: "proxyconnect", Net: "tcp", Err: fmt.Errorf("the proxy answered %d to CONNECT", resp.StatusCode)}
}
