package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"
)

// order is what the load's process is to send: the body again and again, in turn to the paths.
type order struct {
	Addr, Key string
	Paths     []string
	Body      []byte
	Payload   int // where in the body the first payload begins, which gets the moment of its request
	Pace      pace
}

// answer is the last thing that the load's process says.
type answer struct {
	Loaded loaded
	Error  string
}

// loadAPI has a process of its own send what is ordered. Producers are elsewhere in life; here their work shares our
// cores, so it should cost as little as it can, and not be counted as ours.
func (w *world) loadAPI(ctx context.Context, o order) (loaded, error) {
	finish, err := w.beginLoad(ctx, o)
	if err != nil {
		return loaded{}, err
	}
	return finish()
}

// beginLoad is loadAPI that does not wait for the end; finish does.
func (w *world) beginLoad(ctx context.Context, o order) (finish func() (loaded, error), err error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	c, err := startChild(ctx, roleLoad)
	if err != nil {
		return nil, err
	}
	if err := c.tell(string(text)); err != nil {
		c.stop()
		return nil, err
	}
	return func() (loaded, error) {
		defer c.stop()
		line, err := c.line()
		if err != nil {
			return loaded{}, err
		}
		var a answer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			return loaded{}, err
		}
		if a.Error != "" {
			return loaded{}, errors.New(a.Error)
		}
		return a.Loaded, nil
	}, nil
}

// serveLoad is the load's process: it takes an order on its standard input and answers on its standard output.
func serveLoad() error {
	var o order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return err
	}
	var a answer
	var err error
	if a.Loaded, err = o.send(); err != nil {
		a.Error = err.Error()
	}
	return json.NewEncoder(os.Stdout).Encode(a)
}

func (o order) send() (loaded, error) {
	posters := make([]*poster, o.Pace.Clients)
	for i := range posters {
		p, err := newPoster(o, o.Paths[i%len(o.Paths)])
		if err != nil {
			return loaded{}, err
		}
		defer p.conn.Close()
		posters[i] = p
	}
	return load(o.Pace, func(client int, due time.Time) error { return posters[client].post(due) })
}

// poster sends one request over one connection again and again, by hand: HTTP/1.1 as net/http would send it, at a
// fraction of its cost.
type poster struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	payload int // where in the request the payload begins
}

func newPoster(o order, path string) (*poster, error) {
	conn, err := net.Dial("tcp", o.Addr)
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nContent-Length: %d\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\n\r\n", path, o.Addr, len(o.Body), o.Key)
	return &poster{
		conn: conn, in: bufio.NewReader(conn), request: append([]byte(head), o.Body...), payload: len(head) + o.Payload,
	}, nil
}

// post sends the request and reads the whole answer, which has to be a 202.
func (p *poster) post(due time.Time) error {
	stamp(p.request, p.payload, due)
	if _, err := p.conn.Write(p.request); err != nil {
		return err
	}
	status, err := p.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	accepted := bytes.HasPrefix(status, []byte("HTTP/1.1 202 "))
	said := ""
	if !accepted {
		said = string(bytes.TrimSpace(status))
	}
	length, err := p.skipHeader()
	if err != nil {
		return err
	}
	if length < 0 {
		err = p.skipChunks()
	} else {
		_, err = p.in.Discard(length)
	}
	if err == nil && !accepted {
		err = errors.New(said)
	}
	return err
}

// skipHeader reads to the end of the header and gives the body's length; -1: it comes in chunks.
func (p *poster) skipHeader() (length int, err error) {
	length = -1
	for {
		line, err := p.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return length, nil
		}
		if name, value, ok := bytes.Cut(line, []byte(": ")); ok && bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, err
			}
		}
	}
}

// skipChunks reads a chunked body (RFC 9112 §7.1), without a trailer, as net/http sends it.
func (p *poster) skipChunks() error {
	for {
		line, err := p.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return fmt.Errorf("neither a length nor a chunk: %w", err)
		}
		if _, err := io.CopyN(io.Discard, p.in, n+2); err != nil || n == 0 {
			return err
		}
	}
}
