// Package pgcluster runs a PostgreSQL of our own: it finds the server's programs, makes a cluster in a folder, starts the
// server as a child on a free loopback port and ends it again. `postrider dev` keeps one from run to run; tests and
// benchmarks have throw-away ones.
//
// It does not know Postrider's tables (package migrations makes them), does not upgrade a cluster from one major version
// to the next, and is not for production: there somebody else looks after PostgreSQL.
//
// The server listens on 127.0.0.1 alone and wants a password (SCRAM) of everyone: without one, anybody with an account on
// the machine could run programs as the server's user. There is no unix socket, since the path of one may have 107 bytes
// at most and temporary folders are longer than that on some systems.
package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

const (
	// Role owns the database of the same name. It is no superuser, as in production.
	Role = "postrider"
	// ProducerRole may enqueue events by SQL and nothing else. Those that log in are members of it.
	ProducerRole = "postrider_producer"
	// adminRole is the superuser that initdb makes.
	adminRole = "postgres"
)

// Options say what kind of cluster to start.
type Options struct {
	// Dir is the cluster's folder; it is made where it is missing, and everything in it is the cluster's. For an ephemeral
	// cluster it is the folder that the temporary one is made in; "": in memory if there is room, else the system's.
	Dir string
	// Settings are settings of postgresql.conf that go over our own.
	Settings map[string]string
	// Env goes over the environment that the server has from us.
	Env []string
	// Log gets what the server prints on its standard error; nil drops it.
	Log io.Writer
	// Ephemeral makes a cluster that Stop removes with its folder. It does not wait for the disk, so a crash of the machine
	// would destroy it; Role may create databases in it.
	Ephemeral bool
	// Begun is called when the folder is ours and the start, which may take seconds, begins; nil is not.
	Begun func()
}

// Cluster is a cluster whose server was started. Its methods may be called from several goroutines.
type Cluster struct {
	opts Options
	dir  *folder
	bin  binaries

	mu     sync.Mutex
	server *process // nil: not running
	closed bool     // Stop was called: the folder is given up
}

// Start makes the cluster where it is missing, starts its server and returns when that takes connections and the database
// `postrider` is there. ctx bounds the start alone; the server runs until Stop, or until this process ends, however it ends
// (on Linux; elsewhere the next Start on the folder ends the one that was left over).
//
// It fails with ErrNoPostgres or ErrInUse, each with a line for the user.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	dir, err := openFolder(opts)
	if err != nil {
		return nil, err
	}
	if opts.Begun != nil {
		opts.Begun()
	}
	c := &Cluster{opts: opts, dir: dir}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	bin, err := findBinaries(c.dir.major())
	if err != nil {
		return err
	}
	c.bin = bin
	if err := c.dir.initialise(ctx, bin, c.opts.Ephemeral); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.launch(ctx, false); err != nil {
		return err
	}
	return provision(ctx, c.AdminURL(), c.dir.state.Password, c.opts.Ephemeral)
}

// URL is the database `postrider` as its owner, who is no superuser. It holds the password.
func (c *Cluster) URL() string { return c.url(Role, c.dir.state.Password, Role) }

// AdminURL is the database `postgres` as the superuser. It holds the password.
func (c *Cluster) AdminURL() string { return c.url(adminRole, c.dir.state.AdminPassword, "postgres") }

func (c *Cluster) url(user, password, database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(user, password),
		Host:     net.JoinHostPort(loopback, strconv.Itoa(c.dir.state.Port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Stop ends the server and gives the folder up; an ephemeral cluster's is removed. It takes at most about a minute. The
// error says that the server had to be killed or that something was left behind. A second Stop does nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	how := fast
	if c.opts.Ephemeral {
		how = immediate // nothing of it is kept, so it need not be written out
	}
	return errors.Join(c.end(how), c.dir.close(c.opts.Ephemeral))
}

// Kill ends the server as a crash would: nothing is written out, sessions break off, and the next start recovers from
// the log. It returns when the server is gone. For tests of faults.
func (c *Cluster) Kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end(immediate)
}

// KillPostmaster is kill -9 of the postmaster alone, as by the kernel when memory is short: nobody tells the sessions, which
// end when they notice, and the next start has to wait for the memory that they share. For tests of faults.
func (c *Cluster) KillPostmaster() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end(killed)
}

// Restart starts the server again on the port it had, after Kill or by ending it first.
func (c *Cluster) Restart(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errors.New("restart PostgreSQL: the cluster was stopped")
	}
	if err := c.end(fast); err != nil {
		return err
	}
	return c.launch(ctx, true)
}

// end needs c.mu.
func (c *Cluster) end(how ending) error {
	if c.server == nil {
		return nil
	}
	err := c.server.end(how)
	c.server = nil
	return err
}

// launchTries bounds how often a start is tried while the port or the memory of a server before it is not free yet; the
// waits between add up to about 12 s.
const launchTries = 8

// launch starts the server; it needs c.mu. With keepPort the port must stay, since its URL has been handed out.
func (c *Cluster) launch(ctx context.Context, keepPort bool) error {
	if err := c.dir.endLeftover(ctx); err != nil {
		return err
	}
	wait := 50 * time.Millisecond
	for try := 1; ; try++ {
		if err := c.dir.settlePort(keepPort); err != nil {
			return err
		}
		err := c.launchOnce(ctx)
		if err == nil || !errors.Is(err, errNotFreeYet) || try == launchTries {
			return err
		}
		select {
		case <-time.After(wait):
			wait *= 2
		case <-ctx.Done():
			return fmt.Errorf("start PostgreSQL: %w", errors.Join(context.Cause(ctx), err))
		}
	}
}

func (c *Cluster) launchOnce(ctx context.Context) error {
	cmd := c.bin.command(c.dir, "postgres", append([]string{"-D", c.dir.data()}, c.settings()...)...)
	cmd.Env = append(cmd.Env, c.opts.Env...)
	server, err := spawn(cmd, c.opts.Log)
	if err != nil {
		return err
	}
	if err := server.awaitReady(ctx, c.AdminURL()); err != nil {
		return errors.Join(err, server.end(immediate))
	}
	c.server = server
	return nil
}

// DefaultDir is the folder for a user's own Postrider: $XDG_STATE_HOME/postrider, else ~/.local/state/postrider. For root,
// whose home is closed to the unprivileged user that PostgreSQL must run as, it is /var/lib/postrider.
func DefaultDir() string {
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "postrider")
	}
	if os.Geteuid() == 0 {
		return "/var/lib/postrider"
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return filepath.Join(os.TempDir(), fmt.Sprintf("postrider-%d", os.Geteuid()))
	}
	return filepath.Join(home, ".local", "state", "postrider")
}
