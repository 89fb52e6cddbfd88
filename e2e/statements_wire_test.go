package e2e

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ear is a proxy before PostgreSQL that writes down each statement that is prepared or run through it.
type ear struct {
	l  net.Listener
	to string

	mu    sync.Mutex
	heard map[string]bool
	conns []net.Conn
	all   sync.WaitGroup
}

// listenIn starts one, and gives the database's URL by way of it.
func listenIn(t *testing.T, database string) (e *ear, through string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal("the database URL cannot be read") // err repeats it
	}
	e = &ear{to: u.Host, heard: map[string]bool{}}
	if e.l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	e.all.Go(e.accept)
	t.Cleanup(func() {
		_ = e.l.Close()
		e.mu.Lock()
		for _, c := range e.conns {
			_ = c.Close()
		}
		e.mu.Unlock()
		e.all.Wait()
	})
	u.Host = e.l.Addr().String()
	return e, u.String()
}

func (e *ear) accept() {
	for {
		in, err := e.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", e.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		e.mu.Lock()
		e.conns = append(e.conns, in, out)
		e.mu.Unlock()
		e.all.Go(func() { e.requests(in, out); _ = out.Close() })
		e.all.Go(func() { _, _ = io.Copy(in, out); _ = in.Close() })
	}
}

// requests passes on what the client says: a packet of its own for the start, then messages of a type, a length and a body
// (PostgreSQL's manual, Message Formats).
func (e *ear) requests(in io.Reader, out io.Writer) {
	from := bufio.NewReader(in)
	for head := 4; ; head = 5 {
		start := make([]byte, head)
		if _, err := io.ReadFull(from, start); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(start[head-4:])-4)
		if _, err := io.ReadFull(from, body); err != nil {
			return
		}
		switch {
		case head == 4:
		case start[0] == 'Q':
			e.hear(body)
		case start[0] == 'P':
			_, sql, _ := bytes.Cut(body, []byte{0}) // behind its name
			e.hear(sql)
		}
		if _, err := out.Write(slices.Concat(start, body)); err != nil {
			return
		}
	}
}

func (e *ear) hear(zeroEnded []byte) {
	sql, _, _ := bytes.Cut(zeroEnded, []byte{0})
	e.mu.Lock()
	e.heard[strings.TrimSpace(string(sql))] = true
	e.mu.Unlock()
}

// statements are all that were heard so far, each once.
func (e *ear) statements() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.heard))
}
