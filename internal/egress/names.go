package egress

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// keepAnswer is how long an answer of the DNS is used again at most, so that a burst of new connections to one receiver is one
	// question. Shorter than what a failover takes anyway, it need not follow each name's own TTL upwards.
	keepAnswer = 10 * time.Second

	// maxNames bounds the answers kept, at some hundred bytes each.
	maxNames = 4096
)

// names asks the DNS and keeps its answers, for keepAnswer or their TTL if that is shorter; of what has no TTL (/etc/hosts, a C
// resolver) it is keepAnswer. Callers that want one name at a time share one question. A failure is told to all who wait for
// it and not kept. Nothing here judges an address: whoever uses one has it checked each time.
//
// What is kept is the outcome of a lookup and not the single records: of a name that has v4 addresses only, or that is
// completed by a search list, most records are refusals, and these would be asked for again at every dial.
type names struct {
	resolver *net.Resolver // by watchTTL
	timeout  time.Duration // of one question, whoever waits for it
	now      func() time.Time

	mu   sync.Mutex
	kept map[string]*lookup // by lower-case name
}

// lookup is one question. addrs, err and until are set before done is closed, and read-only from then on.
type lookup struct {
	done  chan struct{}
	addrs []net.IPAddr
	err   error
	until time.Time
}

// newNames asks resolver; nil is net.DefaultResolver.
func newNames(resolver *net.Resolver, timeout time.Duration) *names {
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	return &names{resolver: watchTTL(resolver), timeout: timeout, now: time.Now, kept: map[string]*lookup{}}
}

// addresses gives the addresses of a name in the order in which to try them; the slice is shared and not to be changed. An error
// is a *net.DNSError. The hooks DNSStart and DNSDone of a trace in ctx fire if the DNS was waited for, and not for an answer
// that was at hand.
func (n *names) addresses(ctx context.Context, name string) ([]net.IPAddr, error) {
	l, asked, shared := n.find(strings.ToLower(name))
	if !asked {
		return l.addrs, nil
	}
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.DNSStart != nil {
		trace.DNSStart(httptrace.DNSStartInfo{Host: name})
	}
	var addrs []net.IPAddr
	var err error
	select {
	case <-l.done:
		addrs, err = l.addrs, l.err
	case <-ctx.Done():
		err = gaveUp(name, ctx.Err())
	}
	if trace != nil && trace.DNSDone != nil {
		trace.DNSDone(httptrace.DNSDoneInfo{Addrs: slices.Clone(addrs), Coalesced: shared, Err: err})
	}
	return addrs, err
}

// find gives the lookup that holds the answer now or will hold it; asked says which, and shared whether somebody else began it.
func (n *names) find(name string) (l *lookup, asked, shared bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l, ok := n.kept[name]; ok {
		if !l.over() {
			return l, true, true
		}
		if n.now().Before(l.until) { // failures are not in the map any more
			return l, false, false
		}
	}
	n.makeRoom()
	l = &lookup{done: make(chan struct{})}
	n.kept[name] = l
	go n.ask(name, l)
	return l, true, false
}

// ask outlives the caller that began it: others may wait, and the answer serves the next attempt.
func (n *names) ask(name string, l *lookup) {
	ctx, cancel := context.WithTimeout(context.Background(), n.timeout)
	defer cancel()
	ctx, ttl := withTTL(ctx)
	addrs, err := n.resolver.LookupIPAddr(ctx, name)
	keep := min(keepAnswer, ttl.shortest())

	n.mu.Lock()
	defer n.mu.Unlock()
	l.addrs, l.err, l.until = addrs, err, n.now().Add(keep)
	if (err != nil || keep <= 0) && n.kept[name] == l {
		delete(n.kept, name)
	}
	close(l.done)
}

// over reports whether the answer is there.
func (l *lookup) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// makeRoom forgets one name if there are too many: one of a few that has had its time, or else any, which costs a question or
// the sharing of one.
func (n *names) makeRoom() {
	if len(n.kept) < maxNames {
		return
	}
	const looks = 16
	now, i, victim := n.now(), 0, ""
	for name, l := range n.kept {
		victim = name
		if i++; i == looks || (l.over() && !now.Before(l.until)) {
			break
		}
	}
	delete(n.kept, victim)
}

// gaveUp is the error net.Resolver gives when its context ends first.
func gaveUp(name string, cause error) error {
	if errors.Is(cause, context.DeadlineExceeded) {
		return &net.DNSError{UnwrapErr: cause, Err: os.ErrDeadlineExceeded.Error(), Name: name, IsTimeout: true, IsTemporary: true}
	}
	return &net.DNSError{UnwrapErr: cause, Err: "operation was canceled", Name: name}
}
