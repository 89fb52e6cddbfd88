package egresstest

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Zone answers a test's DNS questions, each for a type of record. For a name it gives the addresses, or a code, or (mute) nothing at
// all. Records have a TTL of 0 s, but those of names below ttl5 and ttl60 one of 5 and 60 s. A name that begins with "alias." is
// one for what follows: the answer has the whole chain of them.
type Zone func(name string) (addrs []netip.Addr, code dnsmessage.RCode, mute bool)

// Resolver gives a resolver that asks nobody but answer, over UDP on the loopback.
func Resolver(t testing.TB, answer Zone) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if msg := reply(buf[:n], answer); msg != nil {
				_, _ = pc.WriteTo(msg, from)
			}
		}
	})
	// The resolver outlives its caller's context by the time-out of resolv.conf, so questions that got no answer are cut short.
	var mu sync.Mutex
	var open []net.Conn
	over := false
	t.Cleanup(func() {
		_ = pc.Close()
		mu.Lock()
		over = true
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			if over {
				return nil, net.ErrClosed
			}
			var d net.Dialer
			c, err := d.DialContext(ctx, "udp4", pc.LocalAddr().String())
			if err == nil {
				open = append(open, c)
			}
			return c, err
		},
	}
}

const alias = "alias."

func reply(question []byte, answer Zone) []byte {
	var msg dnsmessage.Message
	if msg.Unpack(question) != nil || len(msg.Questions) != 1 {
		return nil
	}
	q := msg.Questions[0]
	asked := strings.TrimSuffix(q.Name.String(), ".")
	addrs, code, mute := answer(strings.ReplaceAll(asked, alias, ""))
	if mute {
		return nil
	}
	msg.Response, msg.Authoritative, msg.RecursionAvailable, msg.RCode = true, true, true, code
	msg.Additionals = nil
	head := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: ttlOf(q.Name.String())}
	for rest, is := strings.CutPrefix(asked, alias); is && code == 0; rest, is = strings.CutPrefix(rest, alias) {
		found := dnsmessage.MustNewName(rest + ".")
		msg.Answers = append(msg.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.CNAMEResource{CNAME: found}})
		head.Name = found
	}
	for _, a := range addrs {
		switch {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			msg.Answers = append(msg.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: a.As4()}})
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			msg.Answers = append(msg.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	packed, err := msg.Pack()
	if err != nil {
		return nil
	}
	return packed
}

func ttlOf(name string) uint32 {
	switch {
	case strings.HasSuffix(name, ".ttl5."):
		return 5
	case strings.HasSuffix(name, ".ttl60."):
		return 60
	}
	return 0
}

// Fixed is a zone of names that keep their addresses; any other name does not exist.
func Fixed(names map[string]string) Zone {
	return func(name string) ([]netip.Addr, dnsmessage.RCode, bool) {
		list, ok := names[name]
		if !ok {
			return nil, dnsmessage.RCodeNameError, false
		}
		var addrs []netip.Addr
		for a := range strings.SplitSeq(list, " ") {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		return addrs, dnsmessage.RCodeSuccess, false
	}
}
