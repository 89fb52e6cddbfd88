package main

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// crowd is a listener that bounds how many of its connections are open, so that file descriptors do not run out. When all
// are taken, a new one takes the place of one that nothing is being done for: of the silent ones, which have not sent
// the headers of a request, that which has been so for longest; else of those between two requests. A client that means it
// is silent for a moment only, so that however many others keep connections open without a word do not shut it out.
// Only while every connection is in the midst of a request does a new one wait.
type crowd struct {
	net.Listener
	most  int
	throw func() // hears of each connection that had to go

	mu     sync.Mutex
	change sync.Cond // a connection was closed or has nothing to do any more, or the listener is closed
	open   int
	silent *list.List // of *member, the longest waiting first
	idle   *list.List
	closed bool
}

// member is one of the crowd's connections.
type member struct {
	net.Conn
	of    *crowd
	in    *list.List    // where it waits; nil while a request is being served
	place *list.Element // likewise
	once  sync.Once
}

func newCrowd(l net.Listener, most int, throw func()) *crowd {
	c := &crowd{Listener: l, most: most, throw: throw, silent: list.New(), idle: list.New()}
	c.change.L = &c.mu
	return c
}

// Accept gives the next connection once there is room for it.
func (c *crowd) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	m := &member{Conn: conn, of: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.open >= c.most && !c.closed {
		if out := c.longest(); out != nil {
			c.throw()
			c.leave(out)
			_ = out.Conn.Close() // whose reader learns of it
			continue
		}
		c.change.Wait()
	}
	if c.closed {
		_ = conn.Close() // nobody has heard of it
		return nil, net.ErrClosed
	}
	c.open++
	m.wait(c.silent)
	return m, nil
}

// longest is who goes first when there is no room; nil if everybody is being served.
func (c *crowd) longest() *member {
	for _, waiting := range []*list.List{c.silent, c.idle} {
		if first := waiting.Front(); first != nil {
			m, _ := first.Value.(*member)
			return m
		}
	}
	return nil
}

// follow is the server's ConnState.
func (c *crowd) follow(conn net.Conn, state http.ConnState) {
	m, ok := conn.(*member)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateActive:
		m.wait(nil)
	case http.StateIdle:
		m.wait(c.idle)
		c.change.Signal()
	case http.StateNew, http.StateHijacked, http.StateClosed: // Accept and Close see to these
	}
}

// wait puts the connection at the end of a list, or with nil in none. The crowd is locked.
func (m *member) wait(in *list.List) {
	if m.in != nil {
		m.in.Remove(m.place)
	}
	if m.in = in; in != nil {
		m.place = in.PushBack(m)
	}
}

// leave takes the connection out of the crowd, once. The crowd is locked.
func (c *crowd) leave(m *member) {
	m.once.Do(func() {
		m.wait(nil)
		c.open--
		c.change.Signal()
	})
}

// Close closes the connection.
func (m *member) Close() error {
	m.of.mu.Lock()
	m.of.leave(m)
	m.of.mu.Unlock()
	return m.Conn.Close()
}

// Close closes the listener, and gives up a connection that waits for room.
func (c *crowd) Close() error {
	c.mu.Lock()
	c.closed = true
	c.change.Broadcast()
	c.mu.Unlock()
	return c.Listener.Close()
}
