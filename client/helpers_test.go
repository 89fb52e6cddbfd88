package client_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
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
