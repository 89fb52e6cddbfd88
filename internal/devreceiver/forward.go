package devreceiver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// appAnswerLimit is how much of an app's answer is passed back: far more than a sender keeps of it.
	appAnswerLimit = 1 << 20
	byApp          = "app"
)

// Forward passes requests on to an app and answers as it does: with 504 if it takes longer than patience, with 502 if it
// cannot be reached or breaks off. The body goes on byte for byte, with all headers that are not the connection's own. What
// comes while it is being passed on comes from there, and is answered 508: it would go round for ever.
func Forward(target string, patience time.Duration) Answerer {
	f := &forwarder{target, patience, &http.Client{
		// A connection for each request: an app that is restarted leaves none that fails. No proxy, since the app is here.
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: appAnswerLimit},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, sync.Map{}}
	return f.answer
}

type forwarder struct {
	target   string
	patience time.Duration
	http     *http.Client
	underway sync.Map // of sha256 sums, see mark
}

var errPatience = errors.New("the app took too long")

func (f *forwarder) answer(ctx context.Context, got Received) Answer {
	mark := markOf(got)
	if _, loops := f.underway.LoadOrStore(mark, true); loops {
		note := fmt.Sprintf("%s leads back here: this request is being passed on there already", f.target)
		return Answer{Status: http.StatusLoopDetected, Header: plainText(), Body: []byte(note + "\n"), Note: note}
	}
	defer f.underway.Delete(mark)
	began := time.Now()
	a := f.ask(ctx, got)
	a.Took = time.Since(began)
	return a
}

// markOf is the same for a request and for what it is passed on as. No sender sends the like twice at once: each attempt is signed afresh.
func markOf(got Received) (mark [sha256.Size]byte) {
	sum := sha256.New()
	_ = endToEnd(got.Header).Write(sum) // sorts them; a sum takes all
	_, _ = sum.Write(got.Body)
	sum.Sum(mark[:0])
	return mark
}

func (f *forwarder) ask(ctx context.Context, got Received) Answer {
	ctx, cancel := context.WithTimeoutCause(ctx, f.patience, errPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.target, bytes.NewReader(got.Body))
	if err != nil {
		return f.failed(ctx, err)
	}
	req.GetBody = nil // nothing is to be sent twice
	req.Header = endToEnd(got.Header)
	if got.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "") // else net/http sends its own
	}
	resp, err := f.http.Do(req)
	if err != nil {
		return f.failed(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < http.StatusOK {
		return f.failed(ctx, fmt.Errorf("it answered %d", resp.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, appAnswerLimit+1))
	if err != nil {
		return f.failed(ctx, err)
	}
	a := Answer{Status: resp.StatusCode, Header: endToEnd(resp.Header), Body: body, By: byApp}
	if len(body) > appAnswerLimit {
		a.Body, a.Note = body[:appAnswerLimit], fmt.Sprintf("its body was cut at %d bytes", appAnswerLimit)
	}
	return a
}

// failed says why the app gave no answer, to people and to the sender.
func (f *forwarder) failed(ctx context.Context, err error) Answer {
	a := Answer{Status: http.StatusBadGateway, Header: plainText()}
	var dns *net.DNSError
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without the URL, which stands in front
	}
	switch {
	case errors.Is(context.Cause(ctx), errPatience):
		a.Status, a.Note = http.StatusGatewayTimeout, fmt.Sprintf("the app at %s did not answer within %s", f.target, f.patience)
	case ctx.Err() != nil:
		a.Note = "the sender did not wait for the app's answer"
	case errors.Is(err, syscall.ECONNREFUSED):
		a.Note = fmt.Sprintf("the app at %s refuses connections: is it running?", f.target)
	case errors.As(err, &dns):
		a.Note = fmt.Sprintf("the app's host is not known: %s", dns.Name)
	default:
		a.Note = fmt.Sprintf("the app at %s gave no whole answer: %v", f.target, err)
	}
	a.Body = []byte(a.Note + "\n")
	return a
}

// hopByHop are the headers that belong to one connection (RFC 9110, 7.6.1), and those that net/http makes itself.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Content-Length",
}

// endToEnd are the headers that are passed on.
func endToEnd(header http.Header) http.Header {
	out := header.Clone()
	if out == nil {
		out = http.Header{}
	}
	for _, list := range header["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			out.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		out.Del(name)
	}
	return out
}
