package egress

import (
	"context"
	"net"
	"time"
)

// The figures are net.Dialer's own, which dials this way when it does the lookup itself. They follow RFC 8305, sections 5 and 8.
const (
	secondFamilyAfter = 300 * time.Millisecond // how long the first family is tried alone
	minAddressTime    = 2 * time.Second        // what one address of several is given, if as much is left
)

// route is the addresses of one name and how each is dialled.
type route struct {
	dialer  *net.Dialer
	network string
	port    string
}

// dial tries addrs: those of the family of the first one in turn and, when that takes long or fails, those of the other side by
// side with them. ctx must have a deadline. The error is the one of the first address.
func (r *route) dial(ctx context.Context, addrs []net.IPAddr) (net.Conn, error) {
	first, second := families(addrs)
	if len(second) == 0 {
		return r.inTurn(ctx, first)
	}
	return race(ctx,
		func(ctx context.Context) (net.Conn, error) { return r.inTurn(ctx, first) },
		func(ctx context.Context) (net.Conn, error) { return r.inTurn(ctx, second) })
}

// race gives the connection that is there first, and ends the other dial or closes what it brings. second starts late, or when first
// has failed. If both fail the error is first's.
func race(ctx context.Context, first, second func(context.Context) (net.Conn, error)) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type dialled struct {
		net.Conn
		err error
	}
	results := make(chan dialled, 2) // so that the slower one ends even if nobody listens any more
	var firstErr error
	failed := make(chan struct{}) // closed when firstErr is set
	go func() {
		c, err := first(ctx)
		if err != nil {
			firstErr = err
			close(failed)
		}
		results <- dialled{c, err}
	}()
	go func() {
		head := time.NewTimer(secondFamilyAfter)
		defer head.Stop()
		select {
		case <-head.C:
		case <-failed:
		case <-ctx.Done(): // second fails at once
		}
		c, err := second(ctx)
		results <- dialled{c, err}
	}()
	one := <-results
	if one.err != nil {
		if one = <-results; one.err != nil {
			return nil, firstErr
		}
		return one.Conn, nil
	}
	go func() {
		if late := <-results; late.err == nil {
			_ = late.Close()
		}
	}()
	return one.Conn, nil
}

// families parts addrs by v4 and v6, each in its order, and gives the family of the first address first.
func families(addrs []net.IPAddr) (first, second []net.IPAddr) {
	for _, a := range addrs {
		if (a.IP.To4() == nil) == (addrs[0].IP.To4() == nil) {
			first = append(first, a)
		} else {
			second = append(second, a)
		}
	}
	return first, second
}

// inTurn tries one address after the other, each with its share of the time, and gives the error of the first.
func (r *route) inTurn(ctx context.Context, addrs []net.IPAddr) (net.Conn, error) {
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no address", IsNotFound: true}
	}
	var firstErr error
	for i, a := range addrs {
		c, err := r.one(ctx, a, len(addrs)-i)
		if err == nil {
			return c, nil
		}
		if firstErr == nil {
			firstErr = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, firstErr
}

// one dials one address when left are still to be tried, itself included.
func (r *route) one(ctx context.Context, addr net.IPAddr, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		share := max(time.Until(deadline)/time.Duration(left), minAddressTime)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, share)
		defer cancel()
	}
	return r.dialer.DialContext(ctx, r.network, net.JoinHostPort(addr.String(), r.port))
}
