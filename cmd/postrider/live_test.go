package main

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long anything may take in a test that would hang otherwise. Nothing is measured by it.
const patience = time.Minute

// live is a command line that goes on running, in this process.
type live struct {
	out, log *watched
	cancel   context.CancelFunc
	done     chan struct{}
	code     int
}

// goCLI starts a command line that runs until it is stopped, at the latest when the test ends.
func goCLI(t *testing.T, environ []string, args ...string) *live {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	l := &live{out: newWatched(), log: newWatched(), cancel: cancel, done: make(chan struct{})}
	w := world{strings.NewReader(""), l.out, l.log, environ, "bin/postrider", time.Now}
	go func() {
		defer close(l.done)
		l.code = run(ctx, w, args)
		l.out.end()
		l.log.end()
	}()
	t.Cleanup(func() { l.stop(t) })
	return l
}

// stop asks the command to stop, waits for it and gives its exit code.
func (l *live) stop(t *testing.T) int {
	t.Helper()
	l.cancel()
	select {
	case <-l.done:
	case <-time.After(patience):
		t.Fatalf("it does not stop:\n%s%s", l.out, l.log)
	}
	return l.code
}

// watched keeps what is written to it, and lets others wait for what they want to see.
type watched struct {
	mu    sync.Mutex
	text  strings.Builder
	grown chan struct{} // closed when there is more, or no more to come
	ended bool
}

func newWatched() *watched { return &watched{grown: make(chan struct{})} }

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.grown)
	w.grown = make(chan struct{})
	return w.text.Write(b)
}

func (w *watched) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	close(w.grown)
	w.grown = make(chan struct{})
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// await gives the pattern's first group when it shows.
func (w *watched) await(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	late := time.After(patience)
	for {
		w.mu.Lock()
		text, grown, ended := w.text.String(), w.grown, w.ended
		w.mu.Unlock()
		if m := re.FindStringSubmatch(text); m != nil {
			return m[len(m)-1]
		}
		if ended {
			t.Fatalf("it ended without %s:\n%s", pattern, text)
		}
		select {
		case <-grown:
		case <-late:
			t.Fatalf("no %s in\n%s", pattern, text)
		}
	}
}
