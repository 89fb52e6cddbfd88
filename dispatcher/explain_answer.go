package dispatcher

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// explainTimeout names the stage that took too long: whoever looks for a slow handler should not do so behind a firewall that
// drops packets.
func explainTimeout(a answer) string {
	var opErr *net.OpError
	var handshake interface{ TLSHandshake() }
	switch {
	case errors.Is(a.err, errUnacknowledged):
		return a.err.Error()
	case errors.As(a.err, &handshake):
		return "TLS: the handshake was not finished in time"
	case errors.As(a.err, &opErr) && opErr.Op == "dial":
		return "no connection was made in time"
	}
	return "no whole answer within " + a.timeout.String()
}

// explainProtocol tells what was wrong with an answer, or with what came instead of one. Go has no error values for these, so
// it goes by their texts.
func explainProtocol(a answer) string {
	if a.err == nil {
		return fmt.Sprintf("the endpoint answered with status %d, which is no final HTTP answer", a.status)
	}
	text := a.err.Error()
	for _, t := range []struct{ holds, says string }{
		{"response headers exceeded", "the headers of the endpoint's answer are too large"}, // HTTP/1.1
		{"header list larger than advertised limit", "the headers of the endpoint's answer are too large"},
		{"refused the request before answering", "the receiver refused the request over HTTP/2 before it answered"},
		{"GOAWAY", "the receiver gave up its HTTP/2 connection before it answered"},
		{"received from peer", "the receiver broke the request off over HTTP/2 before it answered"},
	} {
		if strings.Contains(text, t.holds) {
			return t.says
		}
	}
	return "the endpoint's answer is not valid HTTP"
}
