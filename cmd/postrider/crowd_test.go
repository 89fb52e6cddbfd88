package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

const livez = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"

// ask makes a request on a connection of its own.
func ask(t *testing.T, addr string) {
	t.Helper()
	c := dial(t, addr)
	if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if got := statuses(t, c); fmt.Sprint(got) != "[200]" {
		t.Errorf("a good client is answered %v", got)
	}
}

// Many more than there is room for hold connections open, in one way or another: whoever means it is served all the same.
func TestManyWhoHoldConnectionsShutNobodyOut(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]string{
		"without a word":           "",
		"with half a request line": "GET /li",
		"with headers without end": "GET /livez HTTP/1.1\r\nHost: x\r\nX: ",
		"between two requests":     livez,
		"with half a body":         "POST /v1/tenants HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lim := usualLimits // so that nothing but the crowd makes room
			lim.connections = 8
			addr := serveAPI(t, lim)
			var held []net.Conn
			for i := range 60 {
				c := dial(t, addr)
				held = append(held, c)
				if _, err := io.WriteString(c, sent); err != nil && len(held) < lim.connections {
					t.Fatal(err)
				}
				if i%10 == 9 {
					ask(t, addr)
				}
			}
			ask(t, addr)
		})
	}
}

// While all are being served, a new one waits until there is room, and is served then.
func TestWhileAllAreServedTheNextWaits(t *testing.T) {
	t.Parallel()
	lim := usualLimits
	lim.connections = 2
	begun, goOn := make(chan struct{}), make(chan struct{})
	addr, s := serveHandler(t, lim, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			begun <- struct{}{}
			<-goOn
		}
	}))
	var busy []net.Conn
	for range lim.connections {
		c := dial(t, addr)
		busy = append(busy, c)
		if _, err := io.WriteString(c, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-begun
	}
	next := dial(t, addr)
	if _, err := io.WriteString(next, livez); err != nil {
		t.Fatal(err)
	}
	if err := next.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := next.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("it was served although there is no room")
	}
	goOn <- struct{}{} // one of the two has nothing to do any more, and makes room
	if err := next.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := next.Read(make([]byte, 1)); n != 1 {
		t.Errorf("it was not served when there was room: %v", err)
	}
	goOn <- struct{}{}

	for _, c := range append(busy, next) {
		_ = c.Close()
	}
	crowd, _ := s.listener.(*crowd)
	crowd.mu.Lock()
	defer crowd.mu.Unlock()
	for crowd.open > 0 { // each one that leaves tells of it
		crowd.change.Wait()
	}
	if crowd.silent.Len()+crowd.idle.Len() != 0 {
		t.Errorf("%d and %d are remembered that are gone", crowd.silent.Len(), crowd.idle.Len())
	}
}

// A server stops while a connection waits for room.
func TestStoppingWhileSomebodyWaits(t *testing.T) {
	t.Parallel()
	lim := usualLimits
	lim.connections = 1
	begun, goOn := make(chan struct{}), make(chan struct{})
	addr, s := serveHandler(t, lim, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-goOn
	}))
	if _, err := io.WriteString(dial(t, addr), livez); err != nil {
		t.Fatal(err)
	}
	<-begun
	waiting := dial(t, addr)
	stopped := make(chan error, 1)
	go func() { stopped <- s.http.Shutdown(t.Context()) }()
	if _, err := waiting.Read(make([]byte, 1)); err == nil {
		t.Error("it was told something")
	}
	goOn <- struct{}{}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
