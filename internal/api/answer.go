package api

import (
	"net/http"
	"time"
)

// answer notes what was answered.
type answer struct {
	http.ResponseWriter
	status int // 0: nothing yet
	bytes  int64
	// leftover is how long what is left of the request's body may still take; 0: there is no body.
	leftover time.Duration
	pace     BodyPace
	begun    time.Time // when the first of it was written
}

func (a *answer) WriteHeader(status int) {
	if a.leftover > 0 && status >= http.StatusOK {
		// It fails only where there is no connection, as in a test of a handler.
		_ = http.NewResponseController(a.ResponseWriter).SetReadDeadline(time.Now().Add(a.leftover))
		a.leftover = 0
	}
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	a.allow(len(b))
	n, err := a.ResponseWriter.Write(b)
	a.bytes += int64(n)
	return n, err
}

// allow sets when the client has to have taken the answer, with n bytes more: as slowly as a body may come, whose rest net/http may
// read before it sends. What it still holds when the handler is done is bound by this as well.
func (a *answer) allow(n int) {
	now := time.Now()
	if a.begun.IsZero() {
		a.begun = now
	}
	due := a.pace.Grace + a.pace.Leftover + time.Duration(a.bytes+int64(n))*time.Second/time.Duration(a.pace.Rate)
	// It fails only where there is no connection, as in a test of a handler.
	_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(a.begun.Add(min(due, answerTime)))
}

// Unwrap lets http.ResponseController through to the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
