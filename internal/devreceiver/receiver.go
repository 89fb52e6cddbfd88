// Package devreceiver is a subscriber's side of a webhook: it verifies what it is sent, says what it got and answers, by
// itself or with what an app answered that it passed the request on to. `postrider dev` has its demo endpoint point to one,
// and `postrider listen` is one.
//
// It stores nothing, weeds out no repeats and prints nothing: whoever makes it is told of each request and says it in
// their own way. It is meant for loopback and for people who look on, not for production.
package devreceiver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/postrider/postrider/signer"
)

// Tolerance is how old a signature may be, what the Standard Webhooks libraries take. Stricter than any retry needs: each
// attempt is signed afresh.
const Tolerance = 5 * time.Minute

// Trust is whose signatures count.
type Trust struct {
	Scheme  signer.Scheme
	Header  string   // of the scheme stripe; "": its default
	Secrets []string // any of them may have signed
}

// Options say how a receiver works.
type Options struct {
	// Trust gives whose signatures count now. It is asked at the first request, and again when one does not verify, since
	// the secret may have been rotated. An error makes that request fail, so that it comes again.
	Trust func(context.Context) (Trust, error)
	// Answer makes the answers to what verifies; nil: 204. Several may be in the making at once.
	Answer Answerer
	// Report is told of each request, one at a time, before it is answered.
	Report func(Received)
	// MaxBody is how many bytes of a body are taken.
	MaxBody int64
	// Now is the time that timestamps are held against.
	Now func() time.Time
}

// Received is one request and what to make of it. Everything in it but Err came from whoever sent it.
type Received struct {
	EventID, DeliveryID, EventType, Attempt string
	ContentType                             string
	Header                                  http.Header
	Body                                    []byte
	At                                      time.Time
	Before                                  int    // how often the same event was verified before
	Err                                     error  // why it was refused; nil: it is verified
	Answer                                  Answer // of what was refused, too
}

// Receiver is the handler.
type Receiver struct {
	opts Options
	turn chan struct{} // holds one token: whoever has it may use trust, seen and Report
	// trust is what counted the last time it was asked for; without secrets it was not asked for yet.
	trust Trust
	seen  *counts
}

// New makes a receiver.
func New(opts Options) *Receiver {
	if opts.Answer == nil {
		opts.Answer = Always(http.StatusNoContent)
	}
	r := &Receiver{opts: opts, turn: make(chan struct{}, 1), seen: newCounts()}
	r.turn <- struct{}{}
	return r
}

// ServeHTTP answers what verifies as the options say, and 400 to what does not.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "this takes webhooks: POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, r.opts.MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		http.Error(w, "the body broke off", http.StatusBadRequest)
		return
	}
	if got, ok := r.Take(req.Context(), req.Header, body); ok {
		got.Answer.write(w)
	}
}

// Take does all that is done with a request but for sending the answer: for those that come in another way. It is not ok
// if ctx ended before its turn, and then nothing was reported.
func (r *Receiver) Take(ctx context.Context, header http.Header, body []byte) (got Received, ok bool) {
	got = received(header, body)
	if !r.take(ctx) {
		return got, false
	}
	got.At = r.opts.Now()
	status, err := r.judge(ctx, header, body)
	got.Err = err
	if err == nil {
		got.Before = r.seen.add(got.EventID)
	}
	r.give()
	if err != nil {
		got.Answer = Answer{Status: status, Header: plainText(), Body: []byte(err.Error() + "\n")}
	} else {
		got.Answer = r.opts.Answer(ctx, got)
	}
	<-r.turn // also if nobody waits for the answer any more: it was made, and is told
	defer r.give()
	r.opts.Report(got)
	return got, true
}

// take waits for the turn. It is not given to who does not wait for an answer any more.
func (r *Receiver) take(ctx context.Context) bool {
	select {
	case <-r.turn:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *Receiver) give() { r.turn <- struct{}{} }

func received(header http.Header, body []byte) Received {
	return Received{
		EventID: header.Get(signer.HeaderID), DeliveryID: header.Get(signer.HeaderDeliveryID),
		EventType: header.Get(signer.HeaderEventType), Attempt: header.Get(signer.HeaderAttempt),
		ContentType: header.Get("Content-Type"), Header: header, Body: body,
	}
}

// judge verifies a request, with fresh secrets if those at hand do not fit. It needs the turn.
func (r *Receiver) judge(ctx context.Context, header http.Header, body []byte) (status int, err error) {
	if len(r.trust.Secrets) > 0 {
		if r.verify(header, body) == nil {
			return http.StatusNoContent, nil
		}
	}
	trust, err := r.opts.Trust(ctx)
	if err != nil {
		return http.StatusServiceUnavailable, fmt.Errorf("learn the secret: %w", err)
	}
	r.trust = trust
	if err := r.verify(header, body); err != nil {
		return http.StatusBadRequest, err
	}
	return http.StatusNoContent, nil
}

// verify does what a subscriber's library does. Any one of the secrets is enough.
func (r *Receiver) verify(header http.Header, body []byte) error {
	err := errors.New("there is no secret to verify with")
	for _, secret := range r.trust.Secrets {
		err = signer.Verify(r.trust.Scheme, r.trust.Header, secret, header.Get, body, r.opts.Now(), Tolerance)
		if err == nil {
			return nil
		}
	}
	return err
}
