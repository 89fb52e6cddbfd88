//go:build chaos

package e2e

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// rogue is a receiver that does to each connection what its script says, and keeps the book of what came: requests by their
// first byte, so that one that never came to its end counts too.
type rogue struct {
	l      net.Listener
	tls    *tls.Config // nil: plain
	unread bool        // the script reads no request: each connection counts as one
	bare   bool        // the script does without a handshake, or makes a mess of it itself
	play   func(*guest)
	over   chan struct{}
	all    sync.WaitGroup

	mu       sync.Mutex
	conns    []net.Conn
	passages []*passage
	cookies  int // requests that brought one
}

// passage is a request from where the receiver stands.
type passage struct {
	begun time.Time
	ended time.Time // when the other side gave it up; zero: it did not, or nobody looked
}

// guest is one connection to a rogue.
type guest struct {
	net.Conn
	raw  *net.TCPConn
	in   *bufio.Reader
	r    *rogue
	n    int           // the connection's number, from 1
	gone chan struct{} // closed when the other side has hung up, if somebody looks (see look)
	once sync.Once
	mine []*passage
}

func (r *rogue) serve(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.l, r.over = l, make(chan struct{})
	r.all.Go(r.accept)
	t.Cleanup(r.close)
}

// close ends the receiver and all its connections. It may be called again.
func (r *rogue) close() {
	r.mu.Lock()
	select {
	case <-r.over:
	default:
		close(r.over)
	}
	_ = r.l.Close()
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.all.Wait()
}

func (r *rogue) url() string {
	scheme := "http://"
	if r.tls != nil {
		scheme = "https://"
	}
	return scheme + r.l.Addr().String() + "/hook?token=CANARY"
}

func (r *rogue) accept() {
	for n := 1; ; n++ {
		c, err := r.l.Accept()
		if err != nil {
			return
		}
		raw, _ := c.(*net.TCPConn)
		r.mu.Lock()
		r.conns = append(r.conns, c)
		r.mu.Unlock()
		r.all.Go(func() {
			defer c.Close()
			r.entertain(raw, n)
		})
	}
}

func (r *rogue) entertain(raw *net.TCPConn, n int) {
	g := &guest{Conn: raw, raw: raw, r: r, n: n, gone: make(chan struct{})}
	if r.unread {
		g.begin()
	}
	if r.tls != nil && !r.bare {
		secure := tls.Server(raw, r.tls)
		if secure.Handshake() != nil {
			return
		}
		g.Conn = secure
	}
	g.in = bufio.NewReader(g.Conn)
	r.play(g)
	if g.Conn != net.Conn(raw) {
		_ = g.Conn.Close() // with TLS's own goodbye, unless the script has closed the connection below it
	}
}

// counted gives how many connections and requests have come.
func (r *rogue) counted() (conns, requests int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.conns), len(r.passages)
}

func (r *rogue) seen() []passage {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]passage, 0, len(r.passages))
	for _, p := range r.passages {
		out = append(out, *p)
	}
	return out
}

func (g *guest) begin() *passage {
	p := &passage{begun: time.Now()}
	g.r.mu.Lock()
	defer g.r.mu.Unlock()
	g.r.passages = append(g.r.passages, p)
	g.mine = append(g.mine, p)
	return p
}

func (g *guest) end(p *passage) {
	g.r.mu.Lock()
	defer g.r.mu.Unlock()
	if p.ended.IsZero() {
		p.ended = time.Now()
	}
}

// first waits for the first byte of a request.
func (g *guest) first() bool {
	if _, err := g.in.Peek(1); err != nil {
		return false
	}
	g.begin()
	return true
}

// request takes a whole request.
func (g *guest) request() bool {
	if !g.first() {
		return false
	}
	req, err := readRequest(g.in)
	if err == nil && req.get("Cookie") != "" {
		g.r.mu.Lock()
		g.r.cookies++
		g.r.mu.Unlock()
	}
	return err == nil
}

// some takes the first n bytes of a request.
func (g *guest) some(n int) bool {
	if !g.first() {
		return false
	}
	_, err := io.CopyN(io.Discard, g.in, int64(n))
	return err == nil
}

func (g *guest) say(s string) bool {
	_, err := io.WriteString(g.Conn, s)
	return err == nil
}

// look reads on, beside the script, to hear when the other side hangs up.
func (g *guest) look() {
	g.once.Do(func() {
		g.r.all.Go(func() {
			_, _ = io.Copy(io.Discard, g.in)
			g.r.mu.Lock()
			mine := g.mine
			g.r.mu.Unlock()
			for _, p := range mine {
				g.end(p)
			}
			close(g.gone)
		})
	})
}

// hold does nothing until the other side hangs up.
func (g *guest) hold() {
	g.look()
	select {
	case <-g.gone:
	case <-g.r.over:
	}
}

// wait does nothing at all, not even look.
func (g *guest) wait() { <-g.r.over }

// drip says a text a byte at a time, and then its last one for ever.
func (g *guest) drip(text string, every time.Duration) {
	g.look()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := 0; ; i++ {
		at := min(i, len(text)-1)
		if !g.say(text[at : at+1]) {
			break
		}
		select {
		case <-tick.C:
			continue
		case <-g.gone:
		case <-g.r.over:
		}
		return
	}
	g.hold()
}

// flood says a piece again and again for as long as somebody listens: some ten megabytes a second, for the machine has other
// things to do.
func (g *guest) flood(piece string) {
	g.look()
	burst := strings.Repeat(piece, max((64<<10)/len(piece), 1))
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for g.say(burst) {
		select {
		case <-tick.C:
		case <-g.gone:
			return
		case <-g.r.over:
			return
		}
	}
	g.hold()
}

// reset ends the connection with an RST.
func (g *guest) reset() {
	_ = g.raw.SetLinger(0)
	_ = g.raw.Close()
}

// leave ends it with a FIN and without TLS's goodbye. What came and was not read is read before, else it would be an RST.
func (g *guest) leave() {
	_ = g.raw.CloseWrite()
	g.hold()
	_ = g.raw.Close()
}
