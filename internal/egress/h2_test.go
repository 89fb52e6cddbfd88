package egress

import (
	"bytes"
	"crypto/tls"
	"io"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/postrider/postrider/internal/pkitest"
)

// h2wire is an HTTP/2 receiver made by hand. It keeps the number of requests it saw and serves each by script.
type h2wire struct {
	*wire
	ca *pkitest.Authority

	mu       sync.Mutex
	requests int
	lengths  []string // the content-length of each request
	window   uint32   // what the client takes unread of a stream
	headers  uint32   // and of headers
}

// h2call is one request in the receiver's hands: its headers are read, its body is not.
type h2call struct {
	fr     *http2.Framer
	stream uint32
	n      int // the request's number over all connections, from 0
	ended  bool
	x      *exchange
}

// newH2 serves each request by script. When script returns false the connection is closed.
func newH2(t testing.TB, script func(*h2call) bool) *h2wire {
	t.Helper()
	h := &h2wire{ca: pkitest.NewAuthority(t, "an authority")}
	cfg := h.ca.Server(t, pkitest.Wanted{Hosts: []string{"127.0.0.1"}})
	cfg.NextProtos = []string{"h2"}
	h.wire = newTLSWire(t, cfg, func(x *exchange) { h.serve(x, script) })
	return h
}

func (h *h2wire) config() Config {
	return Config{Policy: loopback(), TLS: &tls.Config{RootCAs: h.ca.Pool()}}
}

func (h *h2wire) url() string { return "https://" + h.addr + "/hook?token=CANARY" }

func (h *h2wire) seen() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.requests
}

func (h *h2wire) serve(x *exchange, script func(*h2call) bool) {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(x.br, preface); err != nil {
		return
	}
	fr := http2.NewFramer(x, x.br)
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if fr.WriteSettings() != nil {
		return
	}
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if f.IsAck() {
				continue
			}
			h.mu.Lock()
			h.window, _ = f.Value(http2.SettingInitialWindowSize)
			h.headers, _ = f.Value(http2.SettingMaxHeaderListSize)
			h.mu.Unlock()
			if fr.WriteSettingsAck() != nil {
				return
			}
		case *http2.MetaHeadersFrame:
			h.mu.Lock()
			n := h.requests
			h.requests++
			length := "none"
			for _, hf := range f.RegularFields() {
				if hf.Name == "content-length" {
					length = hf.Value
				}
			}
			h.lengths = append(h.lengths, length)
			h.mu.Unlock()
			if !script(&h2call{fr: fr, stream: f.StreamID, n: n, ended: f.StreamEnded(), x: x}) {
				return
			}
		}
	}
}

// answer sends a status and extra headers as name, value pairs, and ends the stream.
func (c *h2call) answer(status string, headers ...string) bool {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	_ = enc.WriteField(hpack.HeaderField{Name: ":status", Value: status})
	for i := 0; i+1 < len(headers); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: headers[i], Value: headers[i+1]})
	}
	block := b.Bytes()
	first := block[:min(len(block), 16<<10)]
	rest := block[len(first):]
	if c.fr.WriteHeaders(http2.HeadersFrameParam{
		StreamID: c.stream, BlockFragment: first, EndStream: true, EndHeaders: len(rest) == 0,
	}) != nil {
		return false
	}
	for len(rest) > 0 {
		part := rest[:min(len(rest), 16<<10)]
		rest = rest[len(part):]
		if c.fr.WriteContinuation(c.stream, len(rest) == 0, part) != nil {
			return false
		}
	}
	return true
}

// readBody takes the rest of the request, so that closing the connection resets nothing.
func (c *h2call) readBody() {
	for !c.ended {
		f, err := c.fr.ReadFrame()
		if err != nil {
			return
		}
		if d, ok := f.(*http2.DataFrame); ok {
			c.ended = d.StreamEnded()
		}
	}
}
