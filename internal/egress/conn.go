package egress

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// lingerForAnswer bounds how long a failed write waits for the reading side, see conn.Write.
const lingerForAnswer = 250 * time.Millisecond

// conn is a dialled TCP connection that knows two things the transport does not tell: whether anything was written since it
// was handed to the present request, and whether the peer's last words have been read.
type conn struct {
	net.Conn
	remote spelled

	written atomic.Int64 // bytes written since handOver
	inUse   atomic.Bool  // handed to a request at least once: handshakes are over and a reader is running
	closing atomic.Bool  // crypto/tls is saying goodbye, see SetWriteDeadline
	barred  atomic.Bool  // writes are refused, see bar

	readOnce sync.Once
	readOver chan struct{} // closed at the first failed read, or at Close
	readErr  error         // what that read failed with; set before readOver is closed
}

func newConn(c net.Conn) *conn {
	addr := c.RemoteAddr()
	return &conn{Conn: c, remote: spelled{addr, addr.String()}, readOver: make(chan struct{})}
}

// spelled is an address whose text is made once: every attempt over a connection notes where it went.
type spelled struct {
	net.Addr
	text string
}

func (a *spelled) String() string { return a.text }

// RemoteAddr gives an address that costs nothing to print.
func (c *conn) RemoteAddr() net.Addr { return &c.remote }

// handOver starts the count for the request that now holds the connection.
func (c *conn) handOver() {
	c.written.Store(0)
	c.closing.Store(false)
	c.inUse.Store(true)
}

// bar makes every further write fail, for a request that must not go out again.
func (c *conn) bar() { c.barred.Store(true) }

// Write counts, and does not report a broken connection before the reading side is through. A receiver that answers 413
// in the middle of a big body and hangs up leaves its answer in our receive buffer and a reset behind it; the transport
// takes whichever it hears of first, so the same refusal would be a 413 now and a reset then. Holding the error back until
// the reader has reached the end makes it a 413 each time. A connection that broke without an answer fails the read at
// once, so this waits for nothing then; nor is there an answer to what was never sent.
//
// If the reader was first and the transport has closed the connection under the write, the error is the reader's: it says what
// happened, and not that we closed our own socket.
func (c *conn) Write(p []byte) (int, error) {
	if c.barred.Load() {
		return 0, errRefused
	}
	n, err := c.Conn.Write(p)
	if c.closing.Load() {
		return n, err
	}
	total := c.written.Add(int64(n))
	if err == nil || !c.inUse.Load() || total == 0 {
		return n, err
	}
	timer := time.NewTimer(lingerForAnswer)
	defer timer.Stop()
	select {
	case <-c.readOver:
		if c.readErr != nil && errors.Is(err, net.ErrClosed) {
			err = c.readErr
		}
	case <-timer.C:
	}
	return n, err
}

// Read notes when, and how, the peer's words came to an end.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		c.endRead(io.ErrUnexpectedEOF) // an io.EOF out of a Write would be taken for the request's own end
	case err != nil:
		c.endRead(err)
	}
	return n, err
}

// Close also ends a Write that waits.
func (c *conn) Close() error {
	c.endRead(nil)
	return c.Conn.Close()
}

// SetWriteDeadline marks the goodbye. Neither transport sets one on an HTTP/1.1 connection; crypto/tls does right before its
// closing alert, and those bytes are no part of a request. Should that ever change, the alert is counted, and a connection
// that was stale is reported as broken instead of dialled anew: the harmless way to be wrong.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.closing.Store(!t.IsZero())
	return c.Conn.SetWriteDeadline(t)
}

func (c *conn) endRead(err error) {
	c.readOnce.Do(func() {
		c.readErr = err
		close(c.readOver)
	})
}

// unwrap finds the dialled connection below TLS (two layers of it with an https proxy), and says whether HTTP/2 is spoken on it.
func unwrap(c net.Conn) (base *conn, h2 bool) {
	for {
		switch v := c.(type) {
		case *conn:
			return v, h2
		case *tls.Conn:
			h2 = h2 || v.ConnectionState().NegotiatedProtocol == "h2"
			c = v.NetConn()
		default:
			return nil, h2
		}
	}
}
