package main

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/pulse"
)

// unit is the service manager's end: a socket, and the messages that come to it.
type unit struct {
	path string
	conn *net.UnixConn
}

func newUnit(t *testing.T) *unit {
	t.Helper()
	u := &unit{path: filepath.Join(t.TempDir(), "notify")}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: u.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	u.conn = conn
	return u
}

// next gives the next message's assignments.
func (u *unit) next(t *testing.T) []string {
	t.Helper()
	if err := u.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 4096)
	n, err := u.conn.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(buffer[:n]), "\n")
}

// Each process tells its service manager, whatever its roles: it is ready, it goes on, it stops, and how long that may take.
func TestAServiceManagerIsTold(t *testing.T) {
	t.Parallel()
	for _, roles := range []string{"api,dispatcher,scheduler", "dispatcher", "scheduler"} {
		t.Run(roles, func(t *testing.T) {
			t.Parallel()
			u := newUnit(t)
			p := startProcess(t, serverEnv(t, "NOTIFY_SOCKET="+u.path, "WATCHDOG_USEC=200000"), "serve", "--roles", roles)
			if got, want := u.next(t), []string{"READY=1", "STATUS=version " + buildVersion() + " runs as " + roles}; !slices.Equal(got, want) {
				t.Fatalf("%q, want %q", got, want)
			}
			// Ready is ready: it listens by now, so that what is ordered behind it finds it.
			p.out.await(t, `"message":"(health\.)?listening"`)
			for range 3 {
				if got := u.next(t); !slices.Equal(got, []string{"WATCHDOG=1"}) {
					t.Fatalf("%q", got)
				}
			}
			p.signal(t, syscall.SIGTERM)
			said := u.next(t)
			for slices.Equal(said, []string{"WATCHDOG=1"}) {
				said = u.next(t)
			}
			if !slices.Equal(said, []string{"STOPPING=1", "STATUS=stopping"}) {
				t.Fatalf("%q", said)
			}
			last := ""
			for last != "STATUS=stopping the clock" { // which has started before all but the servers of health checks and metrics
				said = u.next(t)
				if slices.Equal(said, []string{"WATCHDOG=1"}) {
					continue
				}
				if len(said) != 2 || !strings.HasPrefix(said[1], "EXTEND_TIMEOUT_USEC=") {
					t.Fatalf("%q", said)
				}
				if said[0] == "STATUS=stopping the dispatcher" && said[1] != "EXTEND_TIMEOUT_USEC=55000000" { // 2 × (15 s + 5 s) + 10 s, and 5 s
					t.Errorf("%q", said)
				}
				last = said[0]
			}
			if code := p.exit(t); code != exitDone {
				t.Errorf("exit %d:\n%s", code, p.out)
			}
		})
	}
}

func TestAServiceManagerThatIsAwayDoesNotMatter(t *testing.T) {
	t.Parallel()
	p := startProcess(t, serverEnv(t, "NOTIFY_SOCKET="+filepath.Join(t.TempDir(), "nobody")), "serve", "--roles", "scheduler")
	p.out.await(t, `"message":"health.listening"`)
	p.out.await(t, `"level":"warn","error":"tell the service manager: [^"]+","time":"[^"]+","message":"notify.failed"`)
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != exitDone || strings.Count(p.out.String(), "notify.failed") != 1 {
		t.Errorf("exit %d:\n%s", code, p.out)
	}
}

// The watchdog is for a part that stands still: pings stop with its pulse, and come back with it.
func TestTheWatchdogHearsNothingOfAProcessWithAStuckPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diary
		m := world{environ: []string{"NOTIFY_SOCKET=/nowhere", "WATCHDOG_USEC=60000000"}}.managerOf(zerolog.Nop(), "all is well")
		m.send = func(message string) error { d.note(message); return nil }
		var heart, others pulse.Pulse
		m.started([]part{{name: "the silent one"}, {name: "the loop", still: heart.Still}, {name: "another", still: others.Still}})
		pass := func(rounds int, alive bool) []string {
			for range rounds {
				others.Turn()
				if alive {
					heart.Turn()
				}
				<-time.After(30 * time.Second)
			}
			synctest.Wait()
			said := d.lines
			d.lines = nil
			return said
		}
		ping := "WATCHDOG=1"
		if got, want := pass(1, true), []string{"READY=1\nSTATUS=all is well", ping, ping}; !slices.Equal(got, want) {
			t.Errorf("a start: %q, want %q", got, want)
		}
		if got, want := pass(10, true), slices.Repeat([]string{ping}, 10); !slices.Equal(got, want) {
			t.Errorf("five good minutes: %q, want %q", got, want)
		}
		if got, want := pass(10, false), append(slices.Repeat([]string{ping}, 5), "STATUS=stuck: the loop"); !slices.Equal(got, want) {
			t.Errorf("five minutes without the loop: %q, want %q", got, want)
		}
		if got, want := pass(2, true), []string{"WATCHDOG=1\nSTATUS=all is well", ping}; !slices.Equal(got, want) {
			t.Errorf("it goes on: %q, want %q", got, want)
		}
		m.stopping()
		if got, want := pass(10, false), append([]string{"STOPPING=1\nSTATUS=stopping"}, slices.Repeat([]string{ping}, 10)...); !slices.Equal(got, want) {
			t.Errorf("a stop: %q, want %q", got, want)
		}
		m.stopped()
	})
}

func TestWhetherThereIsAServiceManagerAndAWatchdog(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  string
		some bool
		ping time.Duration
	}{
		{"", false, 0},
		{"WATCHDOG_USEC=1000", false, 0},
		{"NOTIFY_SOCKET=/run/notify", true, 0},
		{"NOTIFY_SOCKET=@notify WATCHDOG_USEC=30000000", true, 15 * time.Second},
		{"NOTIFY_SOCKET=@notify WATCHDOG_USEC=30000000 WATCHDOG_PID=1", true, 0}, // another process is watched
		{"NOTIFY_SOCKET=@notify WATCHDOG_USEC=soon", true, 0},
	} {
		m := world{environ: strings.Fields(c.env)}.managerOf(zerolog.Nop(), "")
		if (m != nil) != c.some || m != nil && m.ping != c.ping {
			t.Errorf("%s: %+v", c.env, m)
		}
	}
	var none *manager // and nobody minds
	err := supervise(t.Context(), zerolog.Nop(), []part{{name: "it", stop: time.Second, run: func(context.Context) error { return errors.New("no") }}}, none)
	if err == nil || err.Error() != "it: no" {
		t.Error(err)
	}
}
