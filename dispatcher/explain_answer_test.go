package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"
)

// The texts are those that TestAnswers and TestHTTP2Answers of internal/egress pin.
func TestExplainAnswer(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	read := &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	for _, c := range []struct {
		outcome Outcome
		status  int
		err     error
		want    string
	}{
		{Timeout, 0, context.DeadlineExceeded, "no whole answer within 15s"},
		{Timeout, 0, read, "no whole answer within 15s"},
		{Timeout, 0, dial, "no connection was made in time"},
		{Timeout, 0, errors.Join(dial, context.DeadlineExceeded), "no connection was made in time"},
		{Timeout, 0, fmt.Errorf("post: %w", handshakeError{os.ErrDeadlineExceeded}), "TLS: the handshake was not finished in time"},
		{ProtocolError, 600, nil, "the endpoint answered with status 600, which is no final HTTP answer"},
		{ProtocolError, 0, errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP version "HTTP/x"`), "the endpoint's answer is not valid HTTP"},
		{ProtocolError, 0, errors.New("net/http: HTTP/1.x transport connection broken: net/http: server response headers exceeded 65536 bytes; aborted"), "the headers of the endpoint's answer are too large"},
		{ProtocolError, 0, errors.New("stream error: stream ID 1; PROTOCOL_ERROR; http2: response header list larger than advertised limit"), "the headers of the endpoint's answer are too large"},
		{ProtocolError, 0, errors.New("the receiver refused the request before answering; it was not sent again: http2: Transport received Server's graceful shutdown GOAWAY"), "the receiver refused the request over HTTP/2 before it answered"},
		{ProtocolError, 0, errors.New("http2: Transport received GOAWAY from server ErrCode:ENHANCE_YOUR_CALM"), "the receiver gave up its HTTP/2 connection before it answered"},
		{ProtocolError, 0, errors.New("stream error: stream ID 1; CANCEL; received from peer"), "the receiver broke the request off over HTTP/2 before it answered"},
	} {
		if got := explain(c.outcome, answer{status: c.status, err: c.err, timeout: 15 * time.Second}); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}
