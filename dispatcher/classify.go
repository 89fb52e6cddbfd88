package dispatcher

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/postrider/postrider/internal/fault"
)

// Classify gives the verdict on one attempt from what came back: the status decides once the answer's headers are
// whole and in time; without an answer the error does. It is pure, and CONTRACT §2's table is its whole meaning.
func Classify(status int, err error) Outcome {
	if err != nil {
		return classifyError(err)
	}
	switch {
	case status >= 200 && status <= 299:
		return Succeeded
	case status >= 300 && status <= 399:
		return Redirected
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return Unauthorized
	case status == http.StatusGone:
		return Gone
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests,
		status >= 500 && status <= 599:
		return Retryable
	case status >= 400 && status <= 499:
		return Rejected
	}
	return ProtocolError // 101, 600 and their like: no answer that HTTP knows as final
}

// classifyError tells the stages apart in which a request can break off. The order matters: a refused address is
// wrapped in a dial error, a certificate fault in a TLS one, and a stage's own time-out is that stage's fault only
// for DNS; everywhere else a time-out is a time-out.
func classifyError(err error) Outcome {
	var dnsErr *net.DNSError
	var netErr net.Error
	var opErr *net.OpError
	switch {
	case fault.Is(err, fault.Blocked):
		return Blocked
	case errors.As(err, &dnsErr):
		return DNSError
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return Timeout
	case tlsFault(err):
		return TLSError
	case errors.As(err, &opErr), brokenOff(err):
		return ConnectError
	}
	return ProtocolError
}

// tlsFault reports whether err is TLS's own: of the handshake, which whoever dials marks as such, or an alert that the
// peer sent later (TLS 1.3 refuses a client's certificate only after the handshake, RFC 8446 §4.4.2.4).
func tlsFault(err error) bool {
	var handshake interface{ TLSHandshake() }
	var opErr *net.OpError
	return errors.As(err, &handshake) ||
		errors.As(err, &opErr) && (opErr.Op == "remote error" || opErr.Op == "local error")
}
