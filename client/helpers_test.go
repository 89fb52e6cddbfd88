package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/apitest"
)

// soon is for tries that follow each other as fast as they may.
var soon = client.WithBackoff(time.Millisecond, time.Millisecond)

// connect makes a client whose connections are closed when the test is over.
func connect(t *testing.T, url string, opts ...client.Option) *client.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New(url, apitest.AdminKey, append([]client.Option{client.WithHTTPClient(&http.Client{Transport: transport}), soon}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answering starts a server for what is not a Postrider's to do.
func answering(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// refusal is the *Error that an error has to be.
func refusal(t *testing.T, err error) *client.Error {
	t.Helper()
	var e *client.Error
	if !errors.As(err, &e) {
		t.Fatalf("not a refusal: %v", err)
	}
	return e
}

// cutting is a proxy in front of a server that passes the first requests on, waits for the answer, and closes the connection
// without giving it.
type cutting struct {
	url    string
	passed atomic.Int32 // requests that the server answered
}

func cut(t *testing.T, server string, first int32) *cutting {
	t.Helper()
	p, transport := &cutting{}, &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	p.url = answering(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		req, err := http.NewRequestWithContext(r.Context(), r.Method, server+r.URL.RequestURI(), bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header = r.Header.Clone()
		resp, err := transport.RoundTrip(req)
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			return
		}
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		_ = resp.Body.Close()
		if p.passed.Add(1) > first {
			for name, values := range resp.Header {
				w.Header()[name] = values
			}
			w.WriteHeader(resp.StatusCode)
			_, _ = w.Write(answer)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, as when a machine is gone
		}
		_ = conn.Close()
	})
	return p
}
