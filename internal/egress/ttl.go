package egress

import (
	"context"
	"encoding/binary"
	"math"
	"net"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// watchTTL gives a resolver that asks as r does and reads along what name servers answer, since net.Resolver does not tell the
// TTL. It is told to the ttl in the context of a lookup. Nothing that is read here decides which address is used.
func watchTTL(r *net.Resolver) *net.Resolver {
	dial := r.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return &net.Resolver{
		PreferGo: r.PreferGo, StrictErrors: r.StrictErrors,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			t, ok := ctx.Value(ttlKey{}).(*ttl)
			if err != nil || !ok {
				return c, err
			}
			if pc, ok := c.(net.PacketConn); ok { // by this net.Resolver tells datagrams from a stream
				return &datagrams{c, pc, t}, nil
			}
			return &stream{Conn: c, ttl: t}, nil
		},
	}
}

type ttlKey struct{}

func withTTL(ctx context.Context) (context.Context, *ttl) {
	t := &ttl{least: math.MaxInt64}
	return context.WithValue(ctx, ttlKey{}, t), t
}

// ttl is the shortest time to live of the records that one lookup was answered with. The questions for v4 and v6 are asked side by
// side.
type ttl struct {
	mu    sync.Mutex
	least time.Duration
}

// shortest gives a time beyond all bounds if no name server answered with a record.
func (t *ttl) shortest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.least
}

// note reads one message. What cannot be read, net.Resolver does not take either; what was forged can but shorten the time.
func (t *ttl) note(msg []byte) {
	var p dnsmessage.Parser
	if _, err := p.Start(msg); err != nil {
		return
	}
	if err := p.SkipAllQuestions(); err != nil {
		return
	}
	for {
		h, err := p.AnswerHeader()
		if err != nil {
			return
		}
		t.mu.Lock()
		t.least = min(t.least, time.Duration(h.TTL)*time.Second)
		t.mu.Unlock()
		if err := p.SkipAnswer(); err != nil {
			return
		}
	}
}

// datagrams is a connection to a name server on which each read is a message.
type datagrams struct {
	net.Conn
	packets net.PacketConn // the same
	ttl     *ttl
}

func (d *datagrams) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	d.ttl.note(p[:n])
	return n, err
}

func (d *datagrams) ReadFrom(p []byte) (int, net.Addr, error) {
	n, from, err := d.packets.ReadFrom(p)
	d.ttl.note(p[:n])
	return n, from, err
}

func (d *datagrams) WriteTo(p []byte, to net.Addr) (int, error) { return d.packets.WriteTo(p, to) }

// stream is a connection to a name server on which each message comes behind its length (RFC 1035 section 4.2.2).
type stream struct {
	net.Conn
	ttl  *ttl
	read []byte // of the message that is not whole yet; one of 64 KiB at most
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.read = append(s.read, p[:n]...)
	for len(s.read) >= 2 {
		end := 2 + int(binary.BigEndian.Uint16(s.read))
		if len(s.read) < end {
			break
		}
		s.ttl.note(s.read[2:end])
		s.read = s.read[end:]
	}
	return n, err
}
