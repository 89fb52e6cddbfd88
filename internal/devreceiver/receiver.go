// Package devreceiver is a subscriber's side of a webhook: an HTTP handler that verifies what it is sent, says what it
// got and answers. `postrider dev` has its demo endpoint point to one.
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

// tolerance is how old a signature may be, what the Standard Webhooks libraries take. Stricter than any retry needs: each
// attempt is signed afresh.
const tolerance = 5 * time.Minute

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
	Body                                    []byte
	Err                                     error // why it was refused; nil: it is verified
}

// Receiver is the handler.
type Receiver struct {
	opts Options
	turn chan struct{} // holds one token: whoever has it may use trust and Report
	// trust is what counted the last time it was asked for; without secrets it was not asked for yet.
	trust Trust
}

// New makes a receiver.
func New(opts Options) *Receiver {
	r := &Receiver{opts: opts, turn: make(chan struct{}, 1)}
	r.turn <- struct{}{}
	return r
}

// ServeHTTP answers 204 to what verifies and 400 to what does not.
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
	select {
	case <-r.turn:
		defer func() { r.turn <- struct{}{} }()
	case <-req.Context().Done():
		return
	}
	status, err := r.judge(req, body)
	r.opts.Report(received(req, body, err))
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	w.WriteHeader(status)
}

func received(req *http.Request, body []byte, err error) Received {
	return Received{
		EventID: req.Header.Get(signer.HeaderID), DeliveryID: req.Header.Get(signer.HeaderDeliveryID),
		EventType: req.Header.Get(signer.HeaderEventType), Attempt: req.Header.Get(signer.HeaderAttempt),
		ContentType: req.Header.Get("Content-Type"), Body: body, Err: err,
	}
}

// judge verifies a request, with fresh secrets if those at hand do not fit. It needs the turn.
func (r *Receiver) judge(req *http.Request, body []byte) (status int, err error) {
	if len(r.trust.Secrets) > 0 {
		if r.verify(req, body) == nil {
			return http.StatusNoContent, nil
		}
	}
	trust, err := r.opts.Trust(req.Context())
	if err != nil {
		return http.StatusServiceUnavailable, fmt.Errorf("learn the secret: %w", err)
	}
	r.trust = trust
	if err := r.verify(req, body); err != nil {
		return http.StatusBadRequest, err
	}
	return http.StatusNoContent, nil
}

// verify does what a subscriber's library does. Any one of the secrets is enough.
func (r *Receiver) verify(req *http.Request, body []byte) error {
	err := errors.New("there is no secret to verify with")
	for _, secret := range r.trust.Secrets {
		err = signer.Verify(r.trust.Scheme, r.trust.Header, secret, req.Header.Get, body, r.opts.Now(), tolerance)
		if err == nil {
			return nil
		}
	}
	return err
}
