package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// diary keeps what happened, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

// worker is a part that takes a while to stop, and notes when it has.
func (d *diary) worker(name string, stopping time.Duration) part {
	return part{name: name, stop: 10 * time.Second, run: func(ctx context.Context) error {
		<-ctx.Done()
		<-time.After(stopping)
		d.note(name)
		return nil
	}}
}

func TestPartsStopLastFirstEachWhenTheOneAfterItIsDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diary
		ctx, cancel := context.WithCancelCause(t.Context())
		var log bytes.Buffer
		done := make(chan error)
		go func() {
			done <- supervise(ctx, zerolog.New(&log), []part{
				d.worker("first", 0), d.worker("second", time.Second), d.worker("third", 3*time.Second),
			}, nil)
		}()
		synctest.Wait()
		if len(d.lines) != 0 {
			t.Fatalf("stopped without being asked: %v", d.lines)
		}
		cancel(errors.New("the night falls"))
		if err := <-done; err != nil {
			t.Error(err)
		}
		if want := []string{"third", "second", "first"}; !slices.Equal(d.lines, want) {
			t.Errorf("stopped %v, want %v", d.lines, want)
		}
		if !strings.Contains(log.String(), `"why":"the night falls"`) {
			t.Errorf("the log does not say why: %s", &log)
		}
	})
}

func TestAPartThatEndsStopsTheRest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"with an error": {errors.New("address in use"), "the server: address in use"},
		"in silence":    {nil, "the server ended by itself"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d diary
			err := supervise(t.Context(), zerolog.Nop(), []part{
				d.worker("first", 0),
				{name: "the server", stop: time.Second, run: func(context.Context) error { return c.err }},
				d.worker("last", 0),
			}, nil)
			if err == nil || err.Error() != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
			if want := []string{"last", "first"}; !slices.Equal(d.lines, want) {
				t.Errorf("stopped %v, want %v", d.lines, want)
			}
		})
	}
}

func TestAPartThatDoesNotStopIsLeftBehindAndNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diary
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		stuck := part{name: "the stuck one", stop: 7 * time.Second, run: func(context.Context) error { <-release; return nil }}
		broken := part{name: "the broken one", stop: time.Second, run: func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("disk full")
		}}
		cancel()
		begin := time.Now()
		err := supervise(ctx, zerolog.Nop(), []part{d.worker("first", 0), stuck, broken}, nil)
		if took := time.Since(begin); took != 7*time.Second {
			t.Errorf("it waited %v", took)
		}
		if want := "stop the broken one: disk full\nstop the stuck one: not done after 7s"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if want := []string{"first"}; !slices.Equal(d.lines, want) {
			t.Errorf("stopped %v, want %v", d.lines, want)
		}
		close(release)
	})
}
