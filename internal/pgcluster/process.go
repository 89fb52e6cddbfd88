package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// ending is a way to end the server; its value is the signal (PostgreSQL's manual, "Shutting Down the Server").
type ending syscall.Signal

const (
	fast      = ending(syscall.SIGINT)  // sessions are broken off, everything is written out
	immediate = ending(syscall.SIGQUIT) // nothing is written out; the next start recovers
	killed    = ending(syscall.SIGKILL) // it ends without a word to its children
)

const (
	fastPatience      = 30 * time.Second // the last checkpoint of a busy server writes all of its buffers
	immediatePatience = 10 * time.Second // PostgreSQL kills its own children after 5 s
	readyPatience     = 2 * time.Minute  // recovery after a crash reads the log of up to a checkpoint
	readyPoll         = 20 * time.Millisecond
)

// errNotFreeYet says that a start failed on a port or on memory that another process had; it may have let go by now.
var errNotFreeYet = errors.New("its port or memory is still in use")

// process is a child that ends with us.
type process struct {
	cmd  *exec.Cmd
	out  *tail
	done chan struct{} // closed when the child is gone
	err  error         // how it ended; after done
}

// spawn starts the command and waits for its end in the background, by one thread: the kernel's signal on the parent's
// death (see endWithParent) comes when the thread ends that started the child, so that one must stay as long.
func spawn(cmd *exec.Cmd, log io.Writer) (*process, error) {
	p := &process{cmd: cmd, out: &tail{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	if log != nil {
		both := io.MultiWriter(p.out, log)
		cmd.Stdout, cmd.Stderr = both, both
	}
	// Sessions outlive a killed server for a moment and hold the pipe open: do not wait for them for ever.
	cmd.WaitDelay = 5 * time.Second
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// awaitReady returns when the server at url lets us in. Its password is in no other server, so it is the right one, even
// if another took the port before.
func (p *process) awaitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	var last error
	for {
		if last = tryConnect(ctx, url); last == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			said := p.out.String()
			if strings.Contains(said, "Address already in use") || strings.Contains(said, "pre-existing shared memory block") {
				return fmt.Errorf("start PostgreSQL: %w: %s", errNotFreeYet, lastLines(said))
			}
			return fmt.Errorf("start PostgreSQL: it ended (%w): %s", p.err, lastLines(said))
		case <-ctx.Done():
			return fmt.Errorf("start PostgreSQL: %w: %w: %s", context.Cause(ctx), last, lastLines(p.out.String()))
		}
	}
}

func tryConnect(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// end ends the child and returns when it is gone: by the given signal, and where that is not heard, by a harder one.
func (p *process) end(how ending) error {
	type step struct {
		signal   ending
		patience time.Duration
	}
	steps := []step{{fast, fastPatience}, {immediate, immediatePatience}, {killed, immediatePatience}}
	for steps[0].signal != how {
		steps = steps[1:]
	}
	for i, s := range steps {
		if err := p.cmd.Process.Signal(syscall.Signal(s.signal)); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("end PostgreSQL: %w", err)
		}
		select {
		case <-p.done:
			if i > 0 {
				return fmt.Errorf("end PostgreSQL: it took a %v, after %v", syscall.Signal(s.signal), steps[0].patience)
			}
			return nil
		case <-time.After(s.patience):
		}
	}
	return fmt.Errorf("end PostgreSQL: process %d does not go", p.cmd.Process.Pid)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 8 << 10

// Write never fails.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - tailBytes; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// lastLines puts the end of a server's output into one line for an error.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > 4 {
		lines = lines[len(lines)-4:]
	}
	return strings.Join(lines, " | ")
}
