package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/signer"
)

// request is what came over the wire, byte for byte.
type request struct {
	line   string
	header textproto.MIMEHeader
	names  []string // as they were spelled
	body   []byte
	at     time.Time
}

func (r request) get(name string) string { return strings.Join(r.header.Values(name), ", ") }

// verify has the receiver's side check the signature.
func (r request) verify(scheme signer.Scheme, secret string) error {
	return signer.Verify(scheme, "", secret, r.get, r.body, r.at, 5*time.Minute)
}

// script says what to write back to the nth request (from 1), raw; "" closes the connection without a word. Anything
// else than a complete HTTP answer is how the tests misbehave.
type script func(n int, r request) string

// receiver is a TCP server that reads whole requests, records them and answers as its script says.
type receiver struct {
	t    *testing.T
	l    net.Listener
	play script

	mu  sync.Mutex
	got []request
	all sync.WaitGroup
	end chan struct{}
}

func receive(t *testing.T, play script) *receiver {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{t: t, l: l, play: play, end: make(chan struct{})}
	r.all.Go(r.accept)
	t.Cleanup(func() {
		close(r.end)
		_ = l.Close()
		r.all.Wait()
	})
	return r
}

func (r *receiver) url(path string) string { return "http://" + r.l.Addr().String() + path }

func (r *receiver) accept() {
	for {
		c, err := r.l.Accept()
		if err != nil {
			return
		}
		r.all.Go(func() {
			defer c.Close()
			closer := make(chan struct{})
			defer close(closer)
			go func() {
				select {
				case <-r.end:
					_ = c.Close()
				case <-closer:
				}
			}()
			r.converse(c)
		})
	}
}

func (r *receiver) converse(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		req, err := readRequest(in)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.got = append(r.got, req)
		n := len(r.got)
		r.mu.Unlock()
		answer := r.play(n, req)
		if answer == "" {
			return
		}
		if _, err := io.WriteString(c, answer); err != nil || strings.Contains(answer, "Connection: close") {
			return
		}
	}
}

func readRequest(in *bufio.Reader) (request, error) {
	req := request{header: textproto.MIMEHeader{}}
	line, err := in.ReadString('\n')
	if err != nil {
		return req, err
	}
	req.line, req.at = strings.TrimRight(line, "\r\n"), time.Now()
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return req, err
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			break
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return req, fmt.Errorf("bad header line %q", line)
		}
		req.names = append(req.names, name)
		req.header.Add(name, strings.TrimSpace(value))
	}
	n, err := strconv.Atoi(req.header.Get("Content-Length"))
	if err != nil {
		return req, err
	}
	req.body = make([]byte, n)
	_, err = io.ReadFull(in, req.body)
	return req, err
}

func (r *receiver) requests() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]request(nil), r.got...)
}

func (r *receiver) count() int { return len(r.requests()) }

// answer makes a complete answer with header lines and an empty body.
func answer(status int, headers ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Length: 0\r\n", status, http.StatusText(status))
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	return b.String() + "\r\n"
}

func always(status int, headers ...string) script {
	return func(int, request) string { return answer(status, headers...) }
}
