package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
)

// errRefused ends a request that the receiver turned away in a way Go's transport would answer by sending it once more.
var errRefused = errors.New("the receiver refused the request before answering; it was not sent again")

// flight is one passage of a request through the transport: it is the request's context, watches what becomes of it, and stops
// the transport from sending it twice.
//
// Where Go sends again by itself (net/http of Go 1.26):
//   - HTTP/2, after REFUSED_STREAM, a GOAWAY or a PROTOCOL_ERROR from the peer: if the request has GetBody or no body;
//   - HTTP/1.1, on a reused connection that broke: if nothing was written and the request has GetBody or no body, or if it has an
//     Idempotency-Key and GetBody or no body.
//
// So requests go in without GetBody, which leaves those without a body; for them gotConn sees the second try before its first
// byte and ends it.
//
// All of it is one piece of memory, since every attempt needs one.
type flight struct {
	context.Context // the caller's, or a child of it if there is cancel
	cancel          context.CancelCauseFunc

	request http.Request
	trace   httptrace.ClientTrace  // the caller's with our own hooks before its
	caller  *httptrace.ClientTrace // nil if there is none

	// Set by gotConn, which both transports call on RoundTrip's own goroutine.
	conn   *conn // what the request was last handed; nil before, or if it is none of ours
	reused bool
	h2     bool

	sentH2 atomic.Bool // headers of the request went out on an HTTP/2 connection, or may have

	handshake atomic.Pointer[error] // what a TLS handshake failed with; set on the dialling goroutine
}

// newFlight readies a passage of out, which is copied.
func newFlight(out *http.Request) *flight {
	f := &flight{Context: out.Context()}
	if out.Body == http.NoBody {
		f.Context, f.cancel = context.WithCancelCause(f.Context)
	}
	if f.caller = httptrace.ContextClientTrace(f.Context); f.caller != nil {
		f.trace = *f.caller
	}
	f.trace.GotConn = f.onGotConn
	f.trace.WroteHeaders = f.onWroteHeaders
	f.trace.TLSHandshakeDone = f.onTLSHandshakeDone
	f.request = *out.WithContext(f)
	return f
}

// traceKey is the key httptrace keeps a trace under in a context, which it tells to whoever is asked for it.
var traceKey = func() any {
	var k keyHole
	_ = httptrace.ContextClientTrace(&k)
	return k.key
}()

// keyHole is a context that holds nothing and remembers what it was asked for.
type keyHole struct {
	context.Context
	key any
}

func (k *keyHole) Value(key any) any {
	k.key = key
	return nil
}

// Value gives the transport the trace of f. httptrace.WithClientTrace would do so too, but it joins it with the caller's by
// reflection, at each request and again at each hook.
func (f *flight) Value(key any) any {
	if key == traceKey {
		return &f.trace
	}
	return f.Context.Value(key)
}

func (f *flight) onGotConn(info httptrace.GotConnInfo) {
	f.gotConn(info)
	if f.caller != nil && f.caller.GotConn != nil {
		f.caller.GotConn(info)
	}
}

// onWroteHeaders is called on the goroutine that writes, but before RoundTrip reports the stream's end, for HTTP/2.
func (f *flight) onWroteHeaders() {
	f.sentH2.Store(true)
	if f.caller != nil && f.caller.WroteHeaders != nil {
		f.caller.WroteHeaders()
	}
}

func (f *flight) onTLSHandshakeDone(state tls.ConnectionState, err error) {
	if err != nil {
		f.handshake.Store(&err)
	}
	if f.caller != nil && f.caller.TLSHandshakeDone != nil {
		f.caller.TLSHandshakeDone(state, err)
	}
}

func (f *flight) gotConn(info httptrace.GotConnInfo) {
	again := f.onWire()
	f.conn, f.h2 = unwrap(info.Conn)
	f.reused = info.Reused
	f.sentH2.Store(false)
	if again {
		f.refuse()
		return
	}
	if f.conn != nil {
		f.conn.handOver()
	}
}

// refuse keeps a request that has been sent from going out on the connection it was handed now. HTTP/2 looks at the context under
// its write lock right before the headers; HTTP/1.1 looks only between tries, so there the connection, which is ours alone for
// now, must not take anything.
func (f *flight) refuse() {
	barred := f.conn != nil && !f.h2
	if barred {
		f.conn.bar()
	}
	switch {
	case f.cancel != nil:
		f.cancel(errRefused)
	case !barred:
		// It has a body that cannot be had again, so net/http does not come here, and the context that could be ended is saved. Should
		// another version do so, its request waits until its time is up, and then the context is over as well.
		<-f.Done()
	}
}

// end is to be called after a failure, and reports whether it was refuse that ended the request.
func (f *flight) end() (refused bool) {
	if f.cancel == nil {
		return false
	}
	refused = errors.Is(context.Cause(f), errRefused)
	f.cancel(nil)
	return refused
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
