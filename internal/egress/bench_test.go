package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"testing"

	"github.com/postrider/postrider/internal/pkitest"
)

// BenchmarkDo is a kept-alive POST of 1 KiB to a receiver in this process that costs the same whatever the client does: through a
// bare transport of the same settings, through Do, and through both with the hooks of somebody who times the stages.
func BenchmarkDo(b *testing.B) {
	ca := pkitest.NewAuthority(b, "an authority")
	handler := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	for _, s := range []struct{ name, url string }{
		{"http", newHTTPServer(b, nil, false, handler).URL},
		{"https", newHTTPServer(b, ca.Server(b, pkitest.Wanted{Hosts: []string{"127.0.0.1"}}), false, handler).URL},
		{"h2", newHTTPServer(b, ca.Server(b, pkitest.Wanted{Hosts: []string{"127.0.0.1"}}), true, handler).URL},
	} {
		for _, traced := range []bool{false, true} {
			for _, way := range []string{"RoundTrip", "Do"} {
				name := s.name + "/" + way
				if traced {
					name += ", traced"
				}
				b.Run(name, func(b *testing.B) {
					c := newTestClient(b, Config{Policy: loopback(), TLS: &tls.Config{RootCAs: ca.Pool()}})
					call := c.Do
					if way == "RoundTrip" {
						call = c.transport.RoundTrip
					}
					benchmarkPosts(b, s.url, traced, call)
				})
			}
		}
	}
}

func benchmarkPosts(b *testing.B, url string, traced bool, call func(*http.Request) (*http.Response, error)) {
	b.Helper()
	model := newPost(b, hang, url, bytes.Repeat([]byte("x"), 1<<10))
	post := func() {
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		defer cancel()
		if traced {
			ctx = httptrace.WithClientTrace(ctx, (&marks{}).trace())
		}
		req := model.WithContext(ctx)
		req.Body, _ = model.GetBody() // of a bytes.Reader, which cannot fail
		resp, err := call(req)        //nolint:bodyclose // readExcerpt closes it
		if err != nil {
			b.Error(err)
			return
		}
		if _, _, err := readExcerpt(resp, 16<<10); err != nil {
			b.Error(err)
		}
	}
	post()
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		post()
	}
}

// marks has as many hooks as an attempt's stopwatch.
type marks struct{ n [8]atomic.Int64 }

func (m *marks) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart:             func(httptrace.DNSStartInfo) { m.n[0].Add(1) },
		DNSDone:              func(httptrace.DNSDoneInfo) { m.n[1].Add(1) },
		ConnectStart:         func(string, string) { m.n[2].Add(1) },
		ConnectDone:          func(string, string, error) { m.n[3].Add(1) },
		TLSHandshakeStart:    func() { m.n[4].Add(1) },
		TLSHandshakeDone:     func(tls.ConnectionState, error) { m.n[5].Add(1) },
		GotConn:              func(httptrace.GotConnInfo) { m.n[6].Add(1) },
		GotFirstResponseByte: func() { m.n[7].Add(1) },
	}
}
