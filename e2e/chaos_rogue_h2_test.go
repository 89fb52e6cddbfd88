//go:build chaos

package e2e

import (
	"bytes"
	"io"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2guest is a connection on which HTTP/2 is spoken. Frames that nobody may send can be sent too.
type h2guest struct {
	*guest
	fr *http2.Framer
	mu sync.Mutex // of what is written
	hp bytes.Buffer

	mute  bool // answers nothing by itself
	calls map[uint32]*call
}

// call is one stream of it.
type call struct {
	*h2guest
	id    uint32
	p     *passage
	whole chan struct{} // closed when the request's body has come
	done  chan struct{} // closed when the other side has given the stream up, or the connection is over
}

// h2 is a script for a rogue: a greeting (nil: plain settings), then each request in its own goroutine. The connection ends
// when a request's script says so with false.
func h2(greet func(*h2guest) bool, play func(*call) bool) func(*guest) {
	return func(g *guest) {
		c := &h2guest{guest: g, fr: http2.NewFramer(g.Conn, g.in), calls: map[uint32]*call{}}
		c.fr.AllowIllegalWrites = true
		c.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		defer c.over()
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(g.in, preface); err != nil {
			return
		}
		if greet == nil {
			greet = func(c *h2guest) bool { return c.fr.WriteSettings() == nil }
		}
		if greet(c) {
			c.converse(play)
		}
	}
}

// over ends all streams.
func (c *h2guest) over() {
	for _, one := range c.calls {
		one.end()
	}
}

func (c *call) end() {
	c.guest.end(c.p)
	close(c.done)
	delete(c.calls, c.id)
}

func (c *h2guest) converse(play func(*call) bool) {
	for {
		f, err := c.fr.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				c.locked(func() error { return c.fr.WriteSettingsAck() })
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				c.locked(func() error { return c.fr.WritePing(true, f.Data) })
			}
		case *http2.MetaHeadersFrame:
			one := &call{h2guest: c, id: f.StreamID, p: c.begin(), whole: make(chan struct{}), done: make(chan struct{})}
			c.calls[one.id] = one
			if f.StreamEnded() {
				close(one.whole)
			}
			c.r.all.Go(func() {
				if !play(one) {
					_ = c.raw.Close()
				}
			})
		case *http2.DataFrame:
			if n := uint32(len(f.Data())); n > 0 {
				c.locked(func() error {
					_ = c.fr.WriteWindowUpdate(f.StreamID, n)
					return c.fr.WriteWindowUpdate(0, n)
				})
			}
			if one := c.calls[f.StreamID]; one != nil && f.StreamEnded() {
				close(one.whole)
			}
		case *http2.RSTStreamFrame:
			if one := c.calls[f.StreamID]; one != nil {
				one.end()
			}
		}
	}
}

// locked writes, one at a time.
func (c *h2guest) locked(write func() error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mute || write() == nil
}

// block packs header fields, which come as name, value, …
func (c *h2guest) block(fields ...string) []byte {
	c.hp.Reset()
	enc := hpack.NewEncoder(&c.hp)
	for i := 0; i+1 < len(fields); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true}) // keeps no table
	}
	return bytes.Clone(c.hp.Bytes())
}

// headers answers with fields; end ends the stream.
func (c *call) headers(end bool, fields ...string) bool {
	return c.locked(func() error {
		return c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: c.id, BlockFragment: c.block(fields...), EndHeaders: true, EndStream: end})
	})
}

func (c *call) data(end bool, s string) bool {
	return c.locked(func() error { return c.fr.WriteData(c.id, end, []byte(s)) })
}

func (c *call) reset(code http2.ErrCode) bool {
	return c.locked(func() error { return c.fr.WriteRSTStream(c.id, code) })
}

func (c *call) goAway(last uint32, code http2.ErrCode) bool {
	return c.locked(func() error { return c.fr.WriteGoAway(last, code, []byte("\xff\x00<why>")) })
}

// hold does nothing until the stream is given up.
func (c *call) hold() bool {
	select {
	case <-c.done:
	case <-c.r.over:
	}
	return true
}

// body waits for the whole of the request's.
func (c *call) body() bool {
	select {
	case <-c.whole:
		return true
	case <-c.done:
	case <-c.r.over:
	}
	return false
}

// each writes again and again until the stream is given up: every now and then, or in bursts.
func (c *call) each(every time.Duration, burst int, write func() error) bool {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if !c.locked(func() error {
			for range burst {
				if err := write(); err != nil {
					return err
				}
			}
			return nil
		}) {
			return c.hold()
		}
		select {
		case <-tick.C:
		case <-c.done:
			return true
		case <-c.r.over:
			return true
		}
	}
}
