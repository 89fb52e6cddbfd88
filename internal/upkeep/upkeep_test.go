package upkeep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log keeps what is written, whoever writes.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// lines gives each line as `level job count error`.
func (l *log) lines(t *testing.T) string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for line := range strings.Lines(l.b.String()) {
		var f struct {
			Level, Job, Error string
			Count             int
		}
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(f.Error, "\n")
		out = append(out, strings.TrimSpace(fmt.Sprint(f.Level, " ", f.Job, " ", f.Count, " ", first)))
	}
	return strings.Join(out, "; ")
}

// running runs jobs in a bubble of its own time until the function it gives is called, which gives Run's error.
func running(t *testing.T, l *log, jobs ...*job) (stop func() error) {
	t.Helper()
	u := &Upkeep{log: zerolog.New(l), jobs: jobs}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- u.Run(ctx) }()
	synctest.Wait()
	return func() error {
		cancel()
		return <-done
	}
}

// after lets that much of the bubble's time go by.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestJobsRunAtOnceAndThenAtTheirPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var fast, slow atomic.Int64
		stop := running(t, &log{},
			&job{name: "fast", every: 2 * time.Second, patience: time.Minute, run: func(context.Context) (int64, error) { fast.Add(1); return 0, nil }},
			&job{name: "slow", every: time.Hour, patience: time.Minute, run: func(context.Context) (int64, error) { slow.Add(1); return 0, nil }},
		)
		if fast.Load() != 1 || slow.Load() != 1 {
			t.Errorf("at once: %d, %d", fast.Load(), slow.Load())
		}
		after(time.Minute)
		if fast.Load() != 31 || slow.Load() != 1 {
			t.Errorf("after a minute: %d, %d", fast.Load(), slow.Load())
		}
		after(time.Hour)
		if slow.Load() != 2 {
			t.Errorf("after an hour: %d", slow.Load())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		was := fast.Load()
		after(time.Hour)
		if fast.Load() != was {
			t.Error("it goes on after the end")
		}
	})
}

func TestAJobDoesNotOverlapItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var starts atomic.Int64
		stop := running(t, &log{}, &job{name: "slow", every: time.Second, patience: time.Minute, run: func(context.Context) (int64, error) {
			starts.Add(1)
			<-time.After(5 * time.Second)
			return 0, nil
		}})
		after(4 * time.Second)
		if starts.Load() != 1 {
			t.Errorf("%d runs at a time", starts.Load())
		}
		after(2 * time.Second)
		if starts.Load() != 2 {
			t.Errorf("%d runs when the first was over", starts.Load())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAPanicAndAnErrorAreOneLineEachAndEndNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		turn := 0
		stop := running(t, l, &job{name: "moody", every: time.Minute, patience: time.Second, run: func(ctx context.Context) (int64, error) {
			turn++
			switch turn {
			case 1:
				panic("at the start")
			case 2:
				return 2, errors.New("half way")
			case 3:
				<-ctx.Done()
				return 0, ctx.Err()
			case 4:
				return 0, nil
			}
			return 5, nil
		}})
		after(4*time.Minute + time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
		want := "error moody 0 panic: at the start; error moody 2 half way; error moody 0 context deadline exceeded; info moody 5"
		if got := l.lines(t); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})
}

func TestAStopInterruptsAndIsNoError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		stop := running(t, l, &job{name: "long", every: time.Minute, patience: time.Hour, run: func(ctx context.Context) (int64, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}})
		if err := stop(); err != nil {
			t.Error(err)
		}
		if got := l.lines(t); got != "" {
			t.Errorf("logged %s", got)
		}
	})
}

func TestAStopIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		stop := running(t, &log{},
			&job{name: "deaf", every: time.Minute, patience: time.Hour, run: func(context.Context) (int64, error) { <-release; return 0, nil }},
			&job{name: "good", every: time.Minute, patience: time.Hour, run: func(context.Context) (int64, error) { return 0, nil }},
		)
		begin := time.Now()
		err := stop()
		if err == nil || !strings.Contains(err.Error(), "deaf") || strings.Contains(err.Error(), "good") || time.Since(begin) != grace {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		close(release)
	})
}
