package egress

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"net"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// message is an answer with records of the given times to live, in seconds, behind one that has none because it is no record of
// the answer: the options of EDNS, which say 0 there.
func message(t testing.TB, ttls ...uint32) []byte {
	t.Helper()
	name := dnsmessage.MustNewName("a.test.")
	msg := dnsmessage.Message{
		Header:    dnsmessage.Header{Response: true},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
		Additionals: []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("."), Type: dnsmessage.TypeOPT},
			Body:   &dnsmessage.OPTResource{},
		}},
	}
	for i, ttl := range ttls {
		r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: ttl}, Body: &dnsmessage.AResource{}}
		if i == 0 && len(ttls) > 1 {
			r.Body = &dnsmessage.CNAMEResource{CNAME: name}
		}
		msg.Answers = append(msg.Answers, r)
	}
	raw, err := msg.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestShortestTTL: the least of all records counts, an alias among them; an answer without records counts for nothing.
func TestShortestTTL(t *testing.T) {
	t.Parallel()
	const none = math.MaxInt64
	whole := message(t, 30, 7)
	for name, c := range map[string]struct {
		msgs [][]byte
		want time.Duration
	}{
		"nothing":               {nil, none},
		"no records":            {[][]byte{message(t)}, none},
		"one":                   {[][]byte{message(t, 60)}, time.Minute},
		"zero":                  {[][]byte{message(t, 0)}, 0},
		"an alias that is less": {[][]byte{message(t, 5, 60)}, 5 * time.Second},
		"two messages":          {[][]byte{message(t, 60), message(t), message(t, 9)}, 9 * time.Second},
		"garbage":               {[][]byte{{}, {1, 2, 3}, bytes.Repeat([]byte{0xff}, 100)}, none},
		"cut after a record":    {[][]byte{whole[:len(whole)-20]}, 30 * time.Second},
	} {
		_, got := withTTL(t.Context())
		for _, m := range c.msgs {
			got.note(m)
		}
		if got.shortest() != c.want {
			t.Errorf("%s: %v, want %v", name, got.shortest(), c.want)
		}
	}
}

// replay is a connection that reads what a test gives it.
type replay struct {
	net.Conn
	io.Reader
}

func (r replay) Read(p []byte) (int, error) { return r.Reader.Read(p) }

// TestTTLOverTCP: messages behind their lengths, in whatever pieces they come.
func TestTTLOverTCP(t *testing.T) {
	t.Parallel()
	var raw []byte
	for _, m := range [][]byte{message(t, 60), message(t, 8), message(t, 20)} {
		raw = append(binary.BigEndian.AppendUint16(raw, uint16(len(m))), m...)
	}
	for name, r := range map[string]io.Reader{
		"at once":      bytes.NewReader(raw),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(raw)),
	} {
		_, got := withTTL(t.Context())
		read, err := io.ReadAll(&stream{Conn: replay{Reader: r}, ttl: got})
		if err != nil || !bytes.Equal(read, raw) || got.shortest() != 8*time.Second {
			t.Errorf("%s: %v, %v, %d bytes", name, got.shortest(), err, len(read))
		}
	}
}

// FuzzTTL: whatever a name server says, it is read without harm.
func FuzzTTL(f *testing.F) {
	f.Add(message(f, 60))
	f.Add(message(f, 5, 60))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, got := withTTL(t.Context())
		got.note(raw)
		if got.shortest() < 0 {
			t.Errorf("%v", got.shortest())
		}
		s := &stream{Conn: replay{Reader: bytes.NewReader(raw)}, ttl: got}
		if read, err := io.ReadAll(s); err != nil || !bytes.Equal(read, raw) {
			t.Errorf("%v", err)
		}
	})
}
