package egress

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
)

// BenchmarkDo is a kept-alive POST of 1 KiB to net/http's own server in this process.
func BenchmarkDo(b *testing.B) {
	ca := newAuthority(b)
	handler := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	for name, s := range map[string]string{
		"http":  newHTTPServer(b, nil, false, handler).URL,
		"https": newHTTPServer(b, ca.server(b, soon(), "127.0.0.1"), false, handler).URL,
		"h2":    newHTTPServer(b, ca.server(b, soon(), "127.0.0.1"), true, handler).URL,
	} {
		b.Run(name, func(b *testing.B) {
			c := newTestClient(b, Config{Policy: loopback(), TLS: ca.client()})
			model := newPost(b, hang, s, bytes.Repeat([]byte("x"), 1<<10))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					ctx, cancel := context.WithTimeout(context.Background(), hang)
					req := model.WithContext(ctx)
					req.Body, _ = model.GetBody() // of a bytes.Reader, which cannot fail
					if a := do(c, req, 16<<10); a.err != nil || a.bodyErr != nil {
						b.Error(a.err, a.bodyErr)
					}
					cancel()
				}
			})
		})
	}
}
