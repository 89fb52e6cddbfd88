package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

const (
	// stuckAfter is for how long a part that has a pulse may be without one. Each of its rounds ends within a minute, whatever
	// the database does, because every statement has its time.
	stuckAfter = 3 * time.Minute
	// extendSlack is added to a part's own time when the service manager is asked for more.
	extendSlack = 5 * time.Second
)

// manager is the service manager that has started this process and wants to hear of it: systemd, for a unit of Type=notify
// (sd_notify(3)). Without one it is nil, which is as good. What cannot be told is no reason not to work.
type manager struct {
	send    func(message string) error
	ping    time.Duration
	log     zerolog.Logger
	status  string // when all is well
	failed  atomic.Bool
	leaving atomic.Bool
	quit    context.CancelFunc
	done    chan struct{}
}

// managerOf finds the manager in the environment; status is one line for its eyes.
func (w world) managerOf(log zerolog.Logger, status string) *manager {
	socket := w.env("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	m := &manager{log: log, status: status, quit: func() {}, done: make(chan struct{})}
	m.send = func(message string) error { return sendTo(socket, message) }
	close(m.done) // until there is something to wait for
	// Half of what it waits for, as systemd recommends. WATCHDOG_PID says whom it waits for.
	if limit, err := strconv.ParseInt(w.env("WATCHDOG_USEC"), 10, 64); err == nil && limit > 0 {
		if pid := w.env("WATCHDOG_PID"); pid == "" || pid == strconv.Itoa(os.Getpid()) {
			m.ping = time.Duration(limit) * time.Microsecond / 2
		}
	}
	return m
}

// tell sends a message of several assignments. The first failure is logged.
func (m *manager) tell(assignments ...string) {
	if err := m.send(strings.Join(assignments, "\n")); err != nil && m.failed.CompareAndSwap(false, true) {
		m.log.Warn().Err(err).Msg("notify.failed")
	}
}

// sendTo sends one datagram to a socket that is a path, or a name in the abstract namespace, which begins with @.
func sendTo(socket, message string) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(message)); err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	return nil
}

// started says that all parts run, and from then on, if it is to, that they go on.
func (m *manager) started(parts []part) {
	if m == nil {
		return
	}
	m.tell("READY=1", "STATUS="+m.status)
	if m.ping == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.quit, m.done = cancel, make(chan struct{})
	go func() {
		defer close(m.done)
		m.watch(ctx, parts)
	}()
}

// watch says again and again that the parts go on, and keeps still while one does not: then it is up to the manager.
// A stop has times of its own, in which parts no longer go round.
func (m *manager) watch(ctx context.Context, parts []part) {
	tick := time.NewTicker(m.ping)
	defer tick.Stop()
	for was := ""; ; {
		stuck := ""
		if !m.leaving.Load() {
			stuck = firstStuck(parts)
		}
		switch {
		case stuck != "" && stuck != was:
			m.log.Error().Str("part", stuck).Str("after", stuckAfter.String()).Msg("part.stuck")
			m.tell("STATUS=stuck: " + stuck)
		case stuck == "" && was != "" && !m.leaving.Load():
			m.tell("WATCHDOG=1", "STATUS="+m.status)
		case stuck == "":
			m.tell("WATCHDOG=1")
		}
		was = stuck
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// stopping says that the end has begun.
func (m *manager) stopping() {
	if m == nil {
		return
	}
	m.leaving.Store(true)
	m.tell("STOPPING=1", "STATUS=stopping")
}

// ends says what is waited for, and asks for as much time as that may take: the manager's own limit need not know it.
func (m *manager) ends(p part) {
	if m == nil {
		return
	}
	m.tell("STATUS=stopping "+p.name, "EXTEND_TIMEOUT_USEC="+strconv.FormatInt((p.stop+extendSlack).Microseconds(), 10))
}

// stopped ends what started has begun.
func (m *manager) stopped() {
	if m == nil {
		return
	}
	m.quit()
	<-m.done
}

// firstStuck gives the name of the first part whose pulse has stopped, or "".
func firstStuck(parts []part) string {
	for _, p := range parts {
		if p.still != nil && p.still().Turned > stuckAfter {
			return p.name
		}
	}
	return ""
}
