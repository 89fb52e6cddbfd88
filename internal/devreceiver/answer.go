package devreceiver

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Answer is what a request is answered.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	By     string        // who made it: "" the receiver itself, else the app
	Note   string        // for people: why it is as it is, where that is not plain
	Took   time.Duration // how long the app took
}

// Answerer makes an answer to a request that was verified.
type Answerer func(context.Context, Received) Answer

// Always answers with one status.
func Always(status int) Answerer {
	return func(context.Context, Received) Answer { return Answer{Status: status} }
}

// FailFirst answers 503 to the first n requests of each delivery, and leaves the others to next. It counts by delivery,
// since that is what is tried again: the first attempts of ten deliveries are ten firsts.
func FailFirst(n int, next Answerer) Answerer {
	met := newCounts()
	return func(ctx context.Context, got Received) Answer {
		key := got.DeliveryID
		if key == "" {
			key = got.EventID
		}
		before := met.add(key)
		if before >= n {
			return next(ctx, got)
		}
		return Answer{
			Status: http.StatusServiceUnavailable, Header: plainText(), Body: []byte("this one is to fail\n"),
			Note: fmt.Sprintf("on purpose: failure %d of %d of this delivery", before+1, n),
		}
	}
}

// After waits before it leaves the answer to next.
func After(d time.Duration, next Answerer) Answerer {
	return func(ctx context.Context, got Received) Answer {
		late := time.NewTimer(d)
		defer late.Stop()
		select {
		case <-late.C:
		case <-ctx.Done(): // next is asked all the same: it sees that nobody waits
		}
		return next(ctx, got)
	}
}

func plainText() http.Header {
	return http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "X-Content-Type-Options": {"nosniff"}}
}

func (a Answer) write(w http.ResponseWriter) {
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Status)
	if a.Status != http.StatusNoContent && a.Status != http.StatusNotModified {
		_, _ = w.Write(a.Body) // who does not take the answer has been reported all the same
	}
}
