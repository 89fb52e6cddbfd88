package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
)

// errRefused ends a request that the receiver turned away in a way Go's transport would answer by sending it once more.
var errRefused = errors.New("the receiver refused the request before answering; it was not sent again")

// flight watches one passage of a request through the transport, and stops the transport from sending it twice.
//
// Where Go sends again by itself (net/http of Go 1.26):
//   - HTTP/2, after REFUSED_STREAM, a GOAWAY or a PROTOCOL_ERROR from the peer: if the request has GetBody or no body;
//   - HTTP/1.1, on a reused connection that broke: if nothing was written and the request has GetBody or no body, or if it has an
//     Idempotency-Key and GetBody or no body.
//
// So requests go in without GetBody, which leaves those without a body; for them gotConn sees the second try before its first
// byte and ends it.
type flight struct {
	cancel context.CancelCauseFunc

	// Set by gotConn, which both transports call on RoundTrip's own goroutine.
	conn   *conn // what the request was last handed; nil before, or if it is none of ours
	reused bool
	h2     bool

	sentH2 atomic.Bool // headers of the request went out on an HTTP/2 connection, or may have

	handshake atomic.Pointer[error] // what a TLS handshake failed with; set on the dialling goroutine
}

// trace gives the hooks of f. httptrace composes them with the caller's own, which still fire.
func (f *flight) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: f.gotConn,
		// Called on the goroutine that writes, but before RoundTrip reports the stream's end, for HTTP/2.
		WroteHeaders: func() { f.sentH2.Store(true) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			if err != nil {
				f.handshake.Store(&err)
			}
		},
	}
}

func (f *flight) gotConn(info httptrace.GotConnInfo) {
	again := f.onWire()
	f.conn, f.h2 = unwrap(info.Conn)
	f.reused = info.Reused
	f.sentH2.Store(false)
	if again {
		// HTTP/2 looks at the context under its write lock right before the headers; HTTP/1.1 looks only between tries, so there the
		// connection, which is ours alone for now, must not take anything.
		f.cancel(errRefused)
		if f.conn != nil && !f.h2 {
			f.conn.bar()
		}
		return
	}
	if f.conn != nil {
		f.conn.handOver()
	}
}

// onWire reports whether any of the request may have been sent on the connection it was last handed.
func (f *flight) onWire() bool {
	if f.conn == nil {
		return false
	}
	if f.h2 {
		return f.sentH2.Load()
	}
	return f.conn.written.Load() > 0
}

// stale reports whether the request failed on a kept-alive HTTP/1.1 connection that had gone before its first byte was
// written, so that nothing of it was on any wire. Meaningful once RoundTrip has returned an error: by then its writer is done.
func (f *flight) stale() bool {
	return f.conn != nil && f.reused && !f.h2 && !f.onWire()
}

// HandshakeError says that TLS with the receiver could not be agreed on. Some of its causes (an EOF, a reset) look the same as those of an answer
// that never came, so the stage is kept with them. A package that must not import this one finds it by its method.
type HandshakeError struct{ Err error }

func (e *HandshakeError) Error() string { return "TLS handshake: " + e.Err.Error() }

// Unwrap gives the cause as Go reported it.
func (e *HandshakeError) Unwrap() error { return e.Err }

// TLSHandshake marks the type, for errors.As with interface{ TLSHandshake() }.
func (e *HandshakeError) TLSHandshake() {}

// explain gives err the stage it came from and, where the transport speaks to its own programmers, words that help whoever reads
// the attempt.
func (f *flight) explain(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "proxyconnect" {
		return err // TLS with our own proxy says nothing about the receiver
	}
	if p := f.handshake.Load(); p != nil && errors.Is(err, *p) {
		return &HandshakeError{Err: err}
	}
	return tidy(err)
}

// errSpokeFirst ends a request on a connection whose other end sends before it is asked, as a mail server does.
var errSpokeFirst = errors.New("the receiver spoke before it was asked; it is no HTTP server, or sends more than one answer")

func tidy(err error) error {
	const before, after = "http2: Transport: cannot retry err [", "] after Request.Body was written"
	const idle = "readLoopPeekFailLocked: " // wraps what came on a connection before the request, or nothing
	text := err.Error()
	if rest, ok := strings.CutPrefix(text, before); ok {
		cause, _, _ := strings.Cut(rest, after)
		return fmt.Errorf("%w: %s", errRefused, cause)
	}
	if strings.HasPrefix(text, idle) {
		if cause := errors.Unwrap(err); cause != nil {
			return cause
		}
		return errSpokeFirst
	}
	return err
}
