//go:build chaos || ops

package e2e

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// wire is a proxy between Postrider and PostgreSQL that reads along and can break off, or stand still, at a statement of
// the test's choice. It speaks PostgreSQL's protocol 3.0 as far as framing and the names of prepared statements go.
type wire struct {
	t    *testing.T
	l    net.Listener
	to   string
	over chan struct{}
	all  sync.WaitGroup

	mu    sync.Mutex
	traps []*trap
	whim  func(c *wireConn, sql string) (h how, springs bool) // for each statement without a trap; nil: none. Set it before any comes
	conns map[*wireConn]bool
}

// how is what happens at the statement that a trap waits for.
type how int

const (
	holdBefore how = iota // the server never gets it, and the connection stands still until Postrider ends it
	holdReply             // the server runs it; what it answers waits until the trap is released
	cutBefore             // the connection ends before the server gets it
	cutInside             // the server gets half of it
	cutAfter              // the server gets and runs it, and the connection ends before its answer
	cutReply              // the connection ends within the answer
)

// trap goes off once, at the first statement that fits.
type trap struct {
	fits    func(c *wireConn, sql string) bool
	how     how
	sprung  chan struct{} // closed when it goes off
	release chan struct{} // closed by the test
	gone    sync.Once
}

func (tr *trap) free() { tr.gone.Do(func() { close(tr.release) }) }

// statement fits what holds all of the words, but for case and the breaks between lines.
func statement(words ...string) func(*wireConn, string) bool {
	return func(_ *wireConn, sql string) bool { return holds(sql, words...) }
}

// commitOf fits the commit of a transaction in which such a statement came.
func commitOf(words string) func(*wireConn, string) bool {
	return func(c *wireConn, sql string) bool { return holds(sql, "commit") && holds(c.said, words) }
}

func holds(sql string, words ...string) bool {
	sql = strings.ToLower(strings.Join(strings.Fields(sql), " "))
	for _, w := range words {
		if !strings.Contains(sql, strings.ToLower(w)) {
			return false
		}
	}
	return true
}

// newWire puts a proxy before the server of a database URL.
func newWire(t *testing.T, database string) *wire {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal("the database URL cannot be read") // err repeats it
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, l: l, to: u.Host, over: make(chan struct{}), conns: map[*wireConn]bool{}}
	w.all.Go(w.accept)
	t.Cleanup(func() {
		close(w.over)
		_ = l.Close()
		w.cutAll()
		w.all.Wait()
	})
	return w
}

// through gives the URL by way of the proxy.
func (w *wire) through(database string) string {
	u, _ := url.Parse(database)
	u.Host = w.l.Addr().String()
	return u.String()
}

// set sets a trap.
func (w *wire) set(h how, fits func(*wireConn, string) bool) *trap {
	tr := &trap{fits: fits, how: h, sprung: make(chan struct{}), release: make(chan struct{})}
	w.t.Cleanup(tr.free)
	w.mu.Lock()
	w.traps = append(w.traps, tr)
	w.mu.Unlock()
	return tr
}

// cutAll ends all connections as a broken cable does, only sooner.
func (w *wire) cutAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.cut()
	}
}

func (w *wire) accept() {
	for {
		in, err := w.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", w.to)
		if err != nil { // as of a server that is away
			_ = in.Close()
			continue
		}
		c := &wireConn{w: w, in: in, out: out, reader: bufio.NewReader(in), named: map[string]string{}, ended: make(chan struct{})}
		w.mu.Lock()
		w.conns[c] = true
		w.mu.Unlock()
		w.all.Go(func() {
			start, err := frame(c.reader, nil) // the one message without a kind
			if err != nil || !write(out, start) {
				c.close()
				return
			}
			c.requests()
		})
		w.all.Go(c.replies)
	}
}

// spring gives the trap that a statement falls into, if any, and takes it away.
func (w *wire) spring(c *wireConn, sql string) *trap {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, tr := range w.traps {
		if tr.fits(c, sql) {
			w.traps = append(w.traps[:i], w.traps[i+1:]...)
			return tr
		}
	}
	if w.whim != nil {
		if h, springs := w.whim(c, sql); springs {
			return &trap{how: h, sprung: make(chan struct{}), release: make(chan struct{})}
		}
	}
	return nil
}

// wireConn is one connection through the proxy.
type wireConn struct {
	w       *wire
	in, out net.Conn
	reader  *bufio.Reader     // of in
	named   map[string]string // prepared statements by name
	said    string            // what was run since the last begin
	last    string            // of that, the last
	once    sync.Once
	ended   chan struct{}

	mu     sync.Mutex
	caught *trap // of its next reply
}

func (c *wireConn) cut() {
	c.once.Do(func() {
		close(c.ended)
		_ = c.in.Close()
		_ = c.out.Close()
	})
}

func (c *wireConn) close() {
	c.cut()
	c.w.mu.Lock()
	delete(c.w.conns, c)
	c.w.mu.Unlock()
}

// requests passes on what Postrider says, message by message, until the connection ends or a trap takes over.
func (c *wireConn) requests() {
	for {
		kind, err := c.reader.ReadByte()
		if err != nil {
			break
		}
		m, err := frame(c.reader, []byte{kind})
		if err != nil {
			break
		}
		sql, runs := c.reads(m)
		if runs && !c.meet(sql, m) {
			return
		}
		if !runs && !write(c.out, m) {
			break
		}
	}
	c.close()
}

// reads keeps the names of statements, and gives what a message runs. Formats: PostgreSQL's manual, 55.7.
func (c *wireConn) reads(m []byte) (sql string, runs bool) {
	body := m[5:]
	switch m[0] {
	case 'P': // Parse: name, statement
		name, rest := zeroEnded(body)
		c.named[name], _ = zeroEnded(rest)
	case 'B': // Bind: portal, name
		_, rest := zeroEnded(body)
		name, _ := zeroEnded(rest)
		return c.named[name], true
	case 'Q':
		sql, _ = zeroEnded(body)
		return sql, true
	}
	return "", false
}

// meet passes a statement on, or does what a trap has for it. It reports whether the connection goes on.
func (c *wireConn) meet(sql string, m []byte) bool {
	if strings.HasPrefix(strings.ToLower(sql), "begin") {
		c.said = ""
	}
	tr := c.w.spring(c, sql)
	c.said += " " + sql
	c.last = sql
	if tr == nil {
		return write(c.out, m)
	}
	defer close(tr.sprung)
	switch tr.how {
	case holdBefore:
		c.w.all.Go(func() {
			_, _ = io.Copy(io.Discard, c.reader)
			c.close()
		})
		return false
	case cutBefore:
		c.cut()
		return false
	case cutInside:
		write(c.out, m[:len(m)/2])
		c.cut()
		return false
	case holdReply, cutAfter, cutReply:
		c.mu.Lock()
		c.caught = tr
		c.mu.Unlock()
	}
	return write(c.out, m)
}

// replies passes on what the server says.
func (c *wireConn) replies() {
	defer c.close()
	buf := make([]byte, 32<<10)
	for {
		n, err := c.out.Read(buf)
		if err != nil {
			return
		}
		c.mu.Lock()
		tr := c.caught
		c.mu.Unlock()
		if tr != nil {
			switch tr.how {
			case holdReply:
				select {
				case <-tr.release:
				case <-c.ended:
					return
				}
			case cutAfter:
				return
			case cutReply:
				write(c.in, buf[:n/2])
				return
			case holdBefore, cutBefore, cutInside:
			}
		}
		if !write(c.in, buf[:n]) {
			return
		}
	}
}

// frame reads a message's length and what follows, behind what came before it.
func frame(r io.Reader, before []byte) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(length[:])) - len(length)
	if n < 0 || n > 1<<30 {
		return nil, fmt.Errorf("a message of %d bytes", n)
	}
	m := append(before, length[:]...)
	m = append(m, make([]byte, n)...)
	_, err := io.ReadFull(r, m[len(m)-n:])
	return m, err
}

// zeroEnded reads a text that ends with a zero byte.
func zeroEnded(b []byte) (text string, rest []byte) {
	before, after, _ := bytes.Cut(b, []byte{0})
	return string(before), after
}

func write(c net.Conn, b []byte) bool {
	_, err := c.Write(b)
	return err == nil
}
