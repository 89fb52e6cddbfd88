package dispatcher

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/postrider/postrider/internal/fault"
)

func TestEveryStatusHasItsVerdict(t *testing.T) {
	t.Parallel()
	for status := range 1000 {
		want := ProtocolError
		switch {
		case status == 401, status == 403:
			want = Unauthorized
		case status == 410:
			want = Gone
		case status == 408, status == 425, status == 429, status >= 500 && status < 600:
			want = Retryable
		case status >= 200 && status < 300:
			want = Succeeded
		case status >= 300 && status < 400:
			want = Redirected
		case status >= 400 && status < 500:
			want = Rejected
		}
		if got := Classify(status, nil); got != want {
			t.Errorf("status %d: %v, want %v", status, got, want)
		}
	}
}

func TestEveryErrorHasItsVerdict(t *testing.T) {
	t.Parallel()
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for name, c := range map[string]struct {
		err  error
		want Outcome
	}{
		"blocked at the dial": {dial(fault.New(fault.Blocked, "loopback")), Blocked},
		"unknown host":        {dial(&net.DNSError{Err: "no such host", Name: "x.test", IsNotFound: true}), DNSError},
		"look-up too slow":    {dial(&net.DNSError{Err: "i/o timeout", Name: "x.test", IsTimeout: true}), DNSError},
		"refused":             {dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), ConnectError},
		"unreachable":         {dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), ConnectError},
		"connect too slow":    {dial(os.ErrDeadlineExceeded), Timeout},
		"deadline":            {fmt.Errorf("post: %w", context.DeadlineExceeded), Timeout},
		"eof":                 {io.EOF, ConnectError},
		"unexpected eof":      {io.ErrUnexpectedEOF, ConnectError},
		"reset":               {&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, ConnectError},
		"idle closed":         {errors.New("http: server closed idle connection"), ConnectError},
		"handshake":           {fmt.Errorf("post: %w", handshakeError{io.EOF}), TLSError},
		"handshake too slow":  {handshakeError{os.ErrDeadlineExceeded}, Timeout},
		"peer's alert":        {&net.OpError{Op: "remote error", Err: tls.AlertError(116)}, TLSError},
		"our alert":           {&net.OpError{Op: "local error", Err: tls.AlertError(22)}, TLSError},
		"malformed":           {errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP status code "x"`), ProtocolError},
		"oversized headers":   {errors.New("net/http: server response headers exceeded 65536 bytes; aborted"), ProtocolError},
	} {
		if got := Classify(0, c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// handshakeError is marked as whoever dials marks an error of the handshake.
type handshakeError struct{ error }

func (handshakeError) TLSHandshake()   {}
func (e handshakeError) Unwrap() error { return e.error }

func TestNamesGoThereAndBack(t *testing.T) {
	t.Parallel()
	for _, o := range Outcomes() {
		if back, err := ParseOutcome(o.String()); err != nil || back != o {
			t.Errorf("%v: %v, %v", o, back, err)
		}
	}
	for _, s := range States() {
		if back, err := ParseState(s.String()); err != nil || back != s {
			t.Errorf("%v: %v, %v", s, back, err)
		}
	}
}
