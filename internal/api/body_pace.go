package api

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// BodyPace is how fast a request's body has to come, and its answer has to be taken. The zero value of a field stands for the usual.
type BodyPace struct {
	// Grace is how long any body may take. A longer one has to come at Rate besides, in bytes a second, and within Total.
	Grace, Total time.Duration
	Rate         int64
	// Leftover is how long what is left of a body may take to arrive once its request is answered. net/http reads some of it
	// before it sends the answer, so that the connection can be used again: without an end to that, a client that sends no
	// more would keep the answer, and the connection, for as long as a whole request may take.
	Leftover time.Duration
}

const (
	bodyGrace = 10 * time.Second
	// bodyTime is what a whole body has. After it the connection's reads end, which would also cancel a handler at work, so
	// it is longer than any of them takes.
	bodyTime     = time.Minute
	bodyRate     = 16 << 10
	leftoverTime = 5 * time.Second
	// answerTime is what a whole answer has: the largest payload that can be configured, 256 MiB, needs 0.7 MB/s.
	answerTime = 7 * time.Minute
)

func (p BodyPace) orUsual() BodyPace {
	if p.Grace == 0 {
		p.Grace = bodyGrace
	}
	if p.Total == 0 {
		p.Total = bodyTime
	}
	if p.Rate == 0 {
		p.Rate = bodyRate
	}
	if p.Leftover == 0 {
		p.Leftover = leftoverTime
	}
	return p
}

// pacedBody is a body that ends in a timeout when it comes too slowly.
type pacedBody struct {
	io.ReadCloser
	pace  BodyPace
	conn  *http.ResponseController
	start time.Time
	read  int64
}

// paced makes it of a request's body. What net/http itself looks at is the request it made, so it must not be put there.
func (s *server) paced(w http.ResponseWriter, body io.ReadCloser) *pacedBody {
	return &pacedBody{ReadCloser: body, pace: s.d.Bodies, conn: http.NewResponseController(w), start: time.Now()}
}

func (b *pacedBody) Read(p []byte) (int, error) {
	due := b.pace.Grace + time.Duration(b.read)*time.Second/time.Duration(b.pace.Rate)
	b.allow(min(due, b.pace.Total))
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if errors.Is(err, io.EOF) {
		b.allow(b.pace.Total) // for the handler, see bodyTime
	}
	return n, err //nolint:wrapcheck // a reader's
}

// allow sets when the connection's reads end. It fails only where there is no connection, as in a test of a handler.
func (b *pacedBody) allow(d time.Duration) { _ = b.conn.SetReadDeadline(b.start.Add(d)) }
