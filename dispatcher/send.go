package dispatcher

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/internal/clienttls"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// Doer posts a request, once, without following redirects, with the TLS of the endpoint that it is for; nil: with everybody's.
// It is internal/egress, which only cmd knows.
type Doer interface {
	DoAs(*http.Request, *clienttls.Identity) (*http.Response, error)
}

// answer is what came back of one attempt, or what kept it from coming.
type answer struct {
	status    int // 0: none
	header    http.Header
	body      []byte
	truncated bool
	err       error // why there is no status; nil if there is one
	address   string
	timings   timings
	timeout   time.Duration // what the attempt was given, for the explanation
	// For the explanation of what TLS has to say; endedAt is this process's clock, by which certificates were judged.
	identity *clienttls.Identity
	endedAt  time.Time // zero if there is a status
}

// timings are the stages of an attempt, each from its own start but firstByte and total, which count from the attempt's.
// Zero: the stage did not happen, as on a kept-alive connection.
type timings struct {
	dns, connect, tls, firstByte, total time.Duration
}

// send posts a body once to the target and brings back what happened, within its timeout from beginning to end. The status
// decides once the headers are whole: a body that is too long, cut off or slow is kept as far as it came and changes nothing.
func (d *Dispatcher) send(ctx context.Context, to *subscriptions.Target, headers []signer.Header, body []byte) answer {
	timeout := d.timeout(to)
	var w stopwatch
	w.start = time.Now() // before the deadline is set, so that no time-out is shown as shorter than it is
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	a := answer{timeout: timeout, identity: to.TLS}
	req, err := newRequest(httptrace.WithClientTrace(ctx, w.trace()), to.URL, headers, body)
	if err != nil {
		a.err = err
		return a
	}
	resp, err := d.deps.Doer.DoAs(req, to.TLS)
	if err != nil {
		a.err = errors.Join(err, ctx.Err()) // a broken connection is a time-out if the time was up
		a.endedAt = time.Now()
	} else {
		a.status, a.header = resp.StatusCode, resp.Header
		a.body, a.truncated = readExcerpt(resp, d.cfg.ResponseBodyLimit)
	}
	a.timings = w.read()
	if address := w.address.Load(); address != nil {
		a.address = *address
	}
	return a
}

// newRequest makes the POST. The body stands in memory, so that Content-Length is always set, also when it is 0.
func newRequest(ctx context.Context, url string, headers []signer.Header, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, errUnsendable
	}
	req.Header = make(http.Header, len(headers))
	values := make([]string, len(headers)) // one piece of memory for all
	for i, h := range headers {
		values[i] = h.Value
		req.Header[h.Name] = values[i : i+1 : i+1] // the spelling stays as it is given
	}
	return req, nil
}

// errUnsendable hides http.NewRequest's own words, which hold the URL with its query.
var errUnsendable = errors.New("no request can be made of the endpoint's URL")

// stopwatch gathers an attempt's times from the transport's trace. Callbacks may come from other goroutines, and for
// addresses dialled side by side more than once, hence atomics; the last of each kind counts.
type stopwatch struct {
	start                                                        time.Time
	dnsStart, dnsDone, dialStart, dialDone, tlsStart, tlsDone, b atomic.Int64
	address                                                      atomic.Pointer[string]
}

func (w *stopwatch) mark(at *atomic.Int64) { at.Store(int64(time.Since(w.start)) + 1) } // never 0, which means "not"

func (w *stopwatch) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart:          func(httptrace.DNSStartInfo) { w.mark(&w.dnsStart) },
		DNSDone:           func(httptrace.DNSDoneInfo) { w.mark(&w.dnsDone) },
		ConnectStart:      func(string, string) { w.mark(&w.dialStart) },
		ConnectDone:       func(_, address string, _ error) { w.mark(&w.dialDone); w.address.Store(&address) },
		TLSHandshakeStart: func() { w.mark(&w.tlsStart) },
		TLSHandshakeDone:  func(tls.ConnectionState, error) { w.mark(&w.tlsDone) },
		GotConn: func(info httptrace.GotConnInfo) {
			address := info.Conn.RemoteAddr().String()
			w.address.Store(&address)
		},
		GotFirstResponseByte: func() { w.mark(&w.b) },
	}
}

func (w *stopwatch) read() timings {
	between := func(from, to *atomic.Int64) time.Duration {
		if from.Load() == 0 || to.Load() == 0 {
			return 0
		}
		return time.Duration(max(to.Load()-from.Load(), 1))
	}
	return timings{
		dns: between(&w.dnsStart, &w.dnsDone), connect: between(&w.dialStart, &w.dialDone),
		tls: between(&w.tlsStart, &w.tlsDone), firstByte: time.Duration(w.b.Load()), total: time.Since(w.start),
	}
}
