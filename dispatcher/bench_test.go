package dispatcher

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"
)

func BenchmarkClassify(b *testing.B) {
	reset := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for _, c := range []struct {
		name   string
		status int
		err    error
	}{
		{"success", http.StatusOK, nil},
		{"failure", http.StatusServiceUnavailable, nil},
		{"timeout", 0, fmt.Errorf("post: %w", context.DeadlineExceeded)},
		{"reset", 0, fmt.Errorf("post: %w", reset)},
		{"cut off", 0, fmt.Errorf("post: %w", io.ErrUnexpectedEOF)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Classify(c.status, c.err)
			}
		})
	}
}

func BenchmarkDecide(b *testing.B) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name    string
		outcome Outcome
		status  int
		header  http.Header
	}{
		{"success", Succeeded, http.StatusOK, http.Header{"Date": {"Mon, 30 Nov 2026 12:00:00 GMT"}}},
		{"retry", Retryable, http.StatusBadGateway, http.Header{}},
		{"retry after seconds", Retryable, http.StatusTooManyRequests, http.Header{"Retry-After": {"120"}}},
		{"retry after a date", Retryable, http.StatusServiceUnavailable, http.Header{"Retry-After": {"Mon, 30 Nov 2026 12:02:00 GMT"}}},
		{"timeout", Timeout, 0, nil},
		{"gone", Gone, http.StatusGone, http.Header{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := Facts{
				Outcome: c.outcome, Status: c.status, Header: c.header, Failures: 1, Schedule: DefaultSchedule, Now: now,
				Jitter: 0.05, FailingSince: &now, DisableAfter: 5 * 24 * time.Hour,
			}
			b.ReportAllocs()
			for b.Loop() {
				Decide(f)
			}
		})
	}
}
