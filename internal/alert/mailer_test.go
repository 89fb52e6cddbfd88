package alert

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// A server that says nothing any more, from some line on, may hold up a mail for its time, and no longer. That is about the server: the
// other mails of the round are not tried.
func TestAMailServerThatFallsSilentIsLeft(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string][]string{
		"at once":             nil,
		"when it is told who": {"220 hello", "250 localhost"},
		"at the text":         {"220 hello", "250 localhost", "250 ok", "250 ok", "354 go on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := newMailer("smtp://" + silentAfter(t, answers) + "/?from=a@b.example&tls=none")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- m.send(ctx, "it@acme.example", "s", "t") }()
			select {
			case err := <-done:
				if !errors.Is(err, errUnreachable) {
					t.Errorf("it ended as %v", err)
				}
			case <-time.After(5 * time.Second):
				t.Error("it waits on")
			}
		})
	}
}

// silentAfter is a server that answers each line with the next of these, and then with nothing.
func silentAfter(t *testing.T, answers []string) (addr string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c, err := l.Accept()
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = c.Close() })
		buf := make([]byte, 4096)
		for _, a := range answers {
			if _, err := c.Write([]byte(a + "\r\n")); err != nil {
				return
			}
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	return strings.Replace(l.Addr().String(), "127.0.0.1", "localhost", 1)
}
