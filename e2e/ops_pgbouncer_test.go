//go:build ops

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pgtest"
)

// pooler is Debian's PgBouncer in transaction mode before a test's database, with fewer connections to the server than any of our
// processes has to it.
type pooler struct {
	t    *testing.T
	dir  string
	url  string // of the database through it
	as   *syscall.Credential
	cmd  *exec.Cmd
	done chan struct{}
}

const poolerServers = 5

const poolerConfig = `
[databases]
%[1]s = host=%[2]s port=%[3]s dbname=%[1]s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[4]d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %[5]s/users
pool_mode = transaction
default_pool_size = %[6]d
max_client_conn = 200
`

func pool(t *testing.T, database string) *pooler {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal("the database URL cannot be read") // err repeats it
	}
	p := &pooler{t: t}
	if p.dir, err = os.MkdirTemp("", "postrider-pgbouncer-"); err != nil { //nolint:usetesting // that one is closed to its user
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(p.dir) })
	port := freePort(t)
	password, _ := u.User.Password()
	for name, text := range map[string]string{
		"ini":   fmt.Sprintf(poolerConfig, strings.TrimPrefix(u.Path, "/"), u.Hostname(), u.Port(), port, p.dir, poolerServers),
		"users": fmt.Sprintf("%q %q\n", u.User.Username(), password),
	} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 { // as it does not run as root
		p.as = account(t, "postgres")
		for _, path := range []string{p.dir, filepath.Join(p.dir, "ini"), filepath.Join(p.dir, "users")} {
			if err := os.Chown(path, int(p.as.Uid), int(p.as.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
	u.Host = fmt.Sprint("127.0.0.1:", port)
	p.url = u.String()
	p.start()
	t.Cleanup(p.kill)
	return p
}

// start returns when it leads to the database.
func (p *pooler) start() {
	p.t.Helper()
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	p.cmd, p.done = exec.Command("/usr/sbin/pgbouncer", filepath.Join(p.dir, "ini")), make(chan struct{})
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.dir, log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() { // the kernel's signal comes when the thread ends that started the child
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		p.t.Fatalf("start pgbouncer (scripts/deps ops): %v", err)
	}
	eventually(p.t, func() string {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, p.url)
		if err != nil {
			said, _ := os.ReadFile(filepath.Join(p.dir, "log"))
			return fmt.Sprintf("pgbouncer does not let us in: %v\n%s", err, said)
		}
		_ = conn.Close(ctx)
		return ""
	})
}

// kill is kill -9: what it was in the middle of, nobody is told.
func (p *pooler) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
}

// through are the settings of processes that come to the database through the pooler.
func (p *pooler) through(direct string) settings {
	env := settings{"DATABASE_URL": p.url, "DATABASE_POOLER": "transaction", "DATABASE_MIGRATE_ON_START": "false"}
	if direct != "" {
		env["DATABASE_DIRECT_URL"] = direct
	}
	return env
}

// Five processes with some sixty connections share five of PostgreSQL's through PgBouncer in transaction mode, which is killed twice
// under load: nothing is lost, nothing comes twice that was not in flight, groups stay in order and limits hold. With a way past it,
// and without.
func TestOpsPgBouncer(t *testing.T) {
	t.Parallel()
	const inFlight, dispatchers = 64, 2
	for _, direct := range []bool{true, false} {
		t.Run(fmt.Sprint("direct_url ", direct), func(t *testing.T) {
			t.Parallel()
			database := pgtest.URL(t)
			bouncer := pool(t, database)
			env := bouncer.through("")
			if direct {
				env = bouncer.through(database)
			}
			env["DELIVERY_MAX_IN_FLIGHT"] = fmt.Sprint(inFlight)
			s := besiege(t, "PgBouncer killed twice", database, env)
			var apis, all []*process
			for _, roles := range []string{"api", "api", "dispatcher", "dispatcher", "scheduler"} {
				p := s.startAs(roles, nil)
				if all = append(all, p); roles == "api" {
					apis = append(apis, p)
				}
			}
			s.settle(apis[0])
			s.use(apis...)
			s.answers(func(n int, _ request) string {
				if n%10 == 0 {
					s.failed.Add(1)
					return answer(http.StatusInternalServerError)
				}
				return answer(http.StatusOK)
			})
			paced := newPaced(t, apis[0])
			const events = 3000
			s.produce(4, events)
			for _, at := range []int{events / 4, events / 2} {
				s.awaitAccepted(at)
				bouncer.kill()
				bouncer.start()
			}
			s.verdict(inFlight * dispatchers)
			paced.check(inFlight * dispatchers)
			said := false
			for _, p := range all {
				said = said || strings.Contains(p.logged(), "wake.no_session")
				if n := strings.Count(p.logged(), "wake.no_session"); n > 1 {
					t.Errorf("a process says %d times that it cannot listen", n)
				}
			}
			if said == direct {
				t.Errorf("direct_url %v, and wake.no_session was logged: %v", direct, said)
			}
			var most int
			s.query(`SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'postrider'
			    AND pid <> pg_backend_pid() AND query NOT ILIKE 'listen%'`, &most)
			if most > poolerServers+dispatchers { // those of LISTEN go past it
				t.Errorf("PostgreSQL has %d connections, want %d through the pooler", most, poolerServers)
			}
		})
	}
}

// paced is an endpoint with groups in order and one with a rate limit, of a tenant of their own.
type paced struct {
	t *testing.T
	h *host
}

const (
	pacedGroups, pacedEach = 60, 4
	pacedEven, pacedRate   = 100, 50
)

func newPaced(t *testing.T, p *process) *paced {
	t.Helper()
	var n atomic.Int64
	c := &paced{t, entertain(t, func(v visit) verdict {
		if n.Add(1)%9 == 0 && v.attempt == 1 {
			return says(http.StatusInternalServerError)
		}
		return says(http.StatusOK)
	})}
	tenant := p.tenant()
	p.on(tenant, c.h, "/groups", object{"ordering": "group"})
	p.on(tenant, c.h, "/even", object{"rate_limit": object{"limit": pacedRate, "per": "1s"}})
	p.batch(tenant, append(grouped("groups", pacedGroups, pacedEach), many("even", pacedEven)...))
	return c
}

// check takes the repeats of what was in flight when the pooler was killed out of the groups: the order of the rest is not theirs.
func (c *paced) check(twice int) {
	c.t.Helper()
	for path, want := range map[string]int{"/groups": pacedGroups * pacedEach, "/even": pacedEven} {
		if got := c.h.served(path); got < want || got > want+twice {
			c.t.Errorf("%s: %d were answered with 2xx, want %d", path, got, want)
		}
	}
	inOrder(c.t, c.h.visits("/groups"), nil)
	if n := most(c.h.visits("/even"), 700*time.Millisecond); n > pacedRate {
		c.t.Errorf("%d requests within less than a second, want %d at most", n, pacedRate)
	}
}

// The commands through a pooler: migrate wants a session and says so, a role that does not bring what sessions had is told what to
// run, and a key can be made.
func TestOpsPgBouncerCommands(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	bouncer := pool(t, database)
	env := bouncer.through("")
	delete(env, "DATABASE_MIGRATE_ON_START")
	if code, said := output(t, env, "migrate", "up"); code != 1 || !strings.Contains(said, "database.direct_url: is not set") {
		t.Errorf("migrate up without a session: %d, %s", code, said)
	}
	past := bouncer.through(database)
	if code, said := output(t, past, "migrate", "up"); code != 0 {
		t.Errorf("migrate up past the pooler: %d, %s", code, said)
	}
	if code, said := output(t, env, "keys", "create", "ops", "--scopes", "admin"); code != 0 {
		t.Errorf("keys create: %d, %s", code, said)
	}
	elsewhere := bouncer.through("")
	elsewhere["DATABASE_URL"] += "&search_path=elsewhere"
	elsewhere["SECRETS_KEYS"] = sealKey
	if code, said := output(t, elsewhere, "serve"); code != 1 || !strings.Contains(said, "the role has to bring its search_path") {
		t.Errorf("serve with a role without its search_path: %d, %s", code, said)
	}
}

// What the pooler costs: the same work by turns without and with it, as a ratio. PgBouncer 1.18 keeps no prepared statements, so each
// statement is parsed and planned anew.
func TestOpsPgBouncerCost(t *testing.T) { //nolint:paralleltest // it measures
	const events, rounds = 2000, 3
	var took [2]time.Duration
	for range rounds {
		for way := range took {
			t.Run(fmt.Sprint("through a pooler ", way == 1), func(t *testing.T) {
				database := pgtest.URL(t)
				env := settings{}
				if way == 1 {
					env = pool(t, database).through(database)
				}
				h := entertain(t, func(visit) verdict { return says(http.StatusOK) })
				p := serve(t, env)
				tenant := p.tenant()
				p.on(tenant, h, "/a", nil)
				begun := time.Now()
				p.batch(tenant, many("a", events))
				h.awaitServed(t, "/a", events)
				took[way] += time.Since(begun)
				h.once(t, "/a")
			})
		}
	}
	t.Logf("%d events, %d times each: %v without, %v with PgBouncer in transaction mode: %.2f times", events, rounds, took[0], took[1],
		float64(took[1])/float64(took[0]))
}
