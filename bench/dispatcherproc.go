package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
)

// childOptions are what a dispatcher's process is told.
type childOptions struct {
	node     int
	inFlight int // 0: the default
}

// serveDispatcher is a process that does nothing but dispatch. It says that it is ready, begins when it is told to, and
// ends with its standard input.
func serveDispatcher(ctx context.Context, url string, o childOptions) error {
	if o.inFlight == 0 {
		o.inFlight = maxInFlight
	}
	b, err := openBase(ctx, url, o.node)
	if err != nil {
		return err
	}
	defer b.close()
	d := b.dispatcher(userAgentOf(o.node), o.inFlight, newRecorded())
	fmt.Println("ready")
	var start [1]byte
	if _, err := io.ReadFull(os.Stdin, start[:]); err != nil { // told to end instead
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return b.run(ctx, d)
}

func userAgentOf(node int) string { return "Postrider/bench-" + strconv.Itoa(node) }

// startDispatchers starts n of these processes and waits until they are ready. stop may be called again, and ends those that
// were started also where an error is given.
func (w *world) startDispatchers(ctx context.Context, n, inFlight int) (all []*child, stop func(), err error) {
	stop = func() {
		for _, c := range all {
			c.stop()
		}
	}
	for i := range n {
		c, err := startChild(ctx, roleDispatcher, "-node", strconv.Itoa(2+i), "-in-flight", strconv.Itoa(inFlight))
		if err != nil {
			return nil, stop, err
		}
		all = append(all, c)
	}
	for _, c := range all {
		if _, err := c.line(); err != nil {
			return nil, stop, err
		}
	}
	return all, stop, nil
}

// begin tells them to dispatch.
func begin(all []*child) error {
	for _, c := range all {
		if err := c.tell(""); err != nil {
			return err
		}
	}
	return nil
}
