package apitest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
)

// Cutting is a proxy in front of a server. It passes requests on and waits for their answers; the first ones it does not give, but
// closes the connection.
type Cutting struct {
	URL    string
	Passed atomic.Int32 // requests that the server answered
}

var errCut = errors.New("this answer gets lost")

// Cut starts one that keeps the first answers to itself.
func Cut(t testing.TB, server string, first int32) *Cutting {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	c, transport := &Cutting{}, &http.Transport{}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(resp *http.Response) error {
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				return err
			}
			resp.Body = io.NopCloser(bytes.NewReader(body))
			if c.Passed.Add(1) <= first {
				return errCut
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if !errors.Is(err, errCut) && !errors.Is(err, context.Canceled) { // that one has gone
				t.Error(err)
			}
			reset(t, w)
		},
	})
	c.URL = proxy.URL
	t.Cleanup(func() {
		proxy.Close()
		transport.CloseIdleConnections()
	})
	return c
}

// reset closes a connection as when the machine behind it is gone.
func reset(t testing.TB, w http.ResponseWriter) {
	t.Helper()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
