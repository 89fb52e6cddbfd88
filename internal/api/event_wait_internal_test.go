package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/internal/intake"
)

// looking plays an event that is finished at a time after the first look, and keeps when it was looked at.
type looking struct {
	until time.Duration
	start time.Time
	at    []time.Duration
	fault error // of the second look
}

func (l *looking) look() (intake.Stored, error) {
	if l.start.IsZero() {
		l.start = time.Now()
	}
	since := time.Since(l.start)
	l.at = append(l.at, since)
	status := "running"
	if since >= l.until {
		status = "failed"
	}
	if len(l.at) == 2 && l.fault != nil {
		return intake.Stored{}, l.fault
	}
	return intake.Stored{Status: status}, nil
}

func waiter() *server { return &server{waiting: make(chan struct{}, 2)} }

const never = time.Hour

func TestWaitLooksAtOnceAndThenMoreAndMoreRarely(t *testing.T) {
	t.Parallel()
	ms := func(ns ...int) (out []time.Duration) {
		for _, n := range ns {
			out = append(out, time.Duration(n)*time.Millisecond)
		}
		return out
	}
	fault := errors.New("the store is away")
	for _, c := range []struct {
		wait, until time.Duration
		fault       error
		looks       []time.Duration
		status      string
	}{
		{wait: 0, until: never, looks: ms(0), status: "running"},
		{wait: 20 * time.Second, until: 0, looks: ms(0), status: "failed"},
		{wait: 20 * time.Second, until: 300 * time.Millisecond, looks: ms(0, 50, 150, 350), status: "failed"},
		{wait: 5 * time.Second, until: never, looks: ms(0, 50, 150, 350, 750, 1550, 2550, 3550, 4550, 5000), status: "running"},
		{wait: 5 * time.Second, until: 4990 * time.Millisecond, looks: ms(0, 50, 150, 350, 750, 1550, 2550, 3550, 4550, 5000), status: "failed"},
		{wait: 5 * time.Second, until: never, fault: fault, looks: ms(0, 50)},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, l := waiter(), &looking{until: c.until, fault: c.fault}
			e, err := s.finishedEvent(t.Context(), c.wait, l.look)
			if !errors.Is(err, c.fault) || e.Status != c.status || !slices.Equal(l.at, c.looks) || len(s.waiting) != 0 {
				t.Errorf("%v, finished after %v: %q, %v, looks at %v, %d still wait", c.wait, c.until, e.Status, err, l.at, len(s.waiting))
			}
		})
	}
}

func TestWaitEndsWhenNobodyWantsIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(stop chan struct{}, cancel context.CancelFunc)
		err  error
	}{
		{"the server stops", func(stop chan struct{}, _ context.CancelFunc) { close(stop) }, nil},
		{"the client has gone", func(_ chan struct{}, cancel context.CancelFunc) { cancel() }, context.Canceled},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, stop := waiter(), make(chan struct{})
			s.d.Stopping = stop
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l := &looking{until: never}
			done := make(chan string)
			go func() {
				e, err := s.finishedEvent(ctx, longestWait, l.look)
				done <- fmt.Sprint(e.Status, errors.Is(err, c.err), time.Since(l.start))
			}()
			time.Sleep(3 * time.Second) //nolint:forbidigo // of a clock that only this test has
			c.end(stop, cancel)
			if got := <-done; got != "runningtrue 3s" {
				t.Errorf("%s: %s", c.name, got)
			}
			if len(s.waiting) != 0 {
				t.Errorf("%s: its place is not free", c.name)
			}
		})
	}
}

func TestSoManyWaitAndNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := waiter()
		done := make(chan time.Duration, 3)
		for range 3 {
			go func() {
				l := &looking{until: never}
				_, err := s.finishedEvent(t.Context(), 10*time.Second, l.look)
				if err != nil {
					t.Error(err)
				}
				done <- time.Since(l.start)
			}()
		}
		got := []time.Duration{<-done, <-done, <-done}
		if want := []time.Duration{0, 10 * time.Second, 10 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("they waited %v", got)
		}
	})
}
