package dispatcher

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/postrider/postrider/internal/fault"
)

// brokenOff reports whether a connection that stood was ended by the other side before the answer was whole.
func brokenOff(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return true
	}
	return strings.Contains(err.Error(), "server closed idle connection")
}

// explain says in plain words what went wrong in an attempt, for the people who read its history: "" for a success.
// Addresses stay out (the attempt has its own field for staff), as do the URL's query and anything secret.
func explain(o Outcome, a answer) string {
	switch o {
	case Succeeded:
		return ""
	case Unknown:
		if a.err != nil {
			return "the fault is Postrider's own, and not the endpoint's: " + explainOwn(a.err)
		}
		return "outcome unknown: the process that made this attempt ended before it could record the answer"
	case Unauthorized:
		return fmt.Sprintf("the endpoint answered %d: it refuses our credentials; check its secret and headers", a.status)
	case Gone:
		return "the endpoint answered 410 Gone: it wants nothing more"
	case Redirected:
		return explainRedirect(a)
	case Retryable, Rejected:
		return strings.TrimSpace(fmt.Sprintf("the endpoint answered %d %s", a.status, http.StatusText(a.status)))
	case Timeout:
		return explainTimeout(a)
	case DNSError:
		return explainDNS(a.err)
	case ConnectError:
		return explainConnect(a.err)
	case TLSError:
		return explainTLS(a)
	case ProtocolError:
		return explainProtocol(a)
	case Blocked:
		var f *fault.Error
		if errors.As(a.err, &f) && f.Detail != "" {
			return f.Detail
		}
		return "the address is not one that deliveries may go to"
	}
	return ""
}

// explainOwn has no words of the database: they tell of its files and tables. The log has them.
func explainOwn(err error) string {
	for _, own := range []error{errPanicked, errNoEvent} {
		if errors.Is(err, own) {
			return own.Error()
		}
	}
	return "what is stored of it could not be read or made ready"
}

func explainRedirect(a answer) string {
	location := a.header.Get("Location")
	u, err := url.Parse(location)
	if location == "" || err != nil {
		return fmt.Sprintf("the endpoint redirects (%d); change its URL to where it should go", a.status)
	}
	u.User, u.RawQuery, u.Fragment = nil, "", "" // a query may carry a token
	return fmt.Sprintf("the endpoint redirects (%d) to %s: change its URL", a.status, clip(u.String(), 512))
}

func explainDNS(err error) string {
	var dnsErr *net.DNSError
	if errors.As(err, &dnsErr) {
		switch {
		case dnsErr.IsNotFound:
			return "no address was found for " + dnsErr.Name
		case dnsErr.IsTimeout:
			return "the look-up of " + dnsErr.Name + " took too long"
		}
	}
	return "the host's address could not be looked up"
}

func explainConnect(err error) string {
	var opErr *net.OpError
	isOp := errors.As(err, &opErr)
	switch {
	case isOp && opErr.Op == "proxyconnect": // where it is and what it said is the operator's business
		return "no connection could be made through the proxy"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens there"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "the host cannot be reached"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the connection was closed by the receiver while sending"
	case isOp && opErr.Op == "dial":
		return "no connection could be made"
	}
	return "the connection was closed before an answer came"
}

func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
