//go:build chaos || ops

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pgcluster"
)

// durable is a server of the test's own whose commits outlive it. They wait until the system has them and not until the disk
// has: processes die here, and not the machine.
func durable(t *testing.T, opts pgcluster.Options) *pgcluster.Cluster {
	t.Helper()
	opts.Ephemeral = true
	all := map[string]string{"synchronous_commit": "on", "full_page_writes": "on"}
	maps.Copy(all, opts.Settings)
	opts.Settings = all
	c, err := pgcluster.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// PostgreSQL goes away under load in every way there is, and comes back.
//
// What is accepted waits for its commit to be written. A claim does not: one that is lost with the server leaves a delivery
// that looks as if nobody had taken it, while its request is on its way, so it goes out again. But what is recorded does wait,
// and with it all that was written before. So a claim that is lost is one whose result was not recorded: it was in flight.
func TestChaosPostgresGoesAway(t *testing.T) {
	t.Parallel()
	const inFlight, times = 64, 3
	for how, end := range map[string]func(t *testing.T, c *pgcluster.Cluster) error{
		"restarted":                      func(t *testing.T, c *pgcluster.Cluster) error { t.Helper(); return c.Restart(t.Context()) },
		"stopped at once":                thenRestart((*pgcluster.Cluster).Kill),
		"kill -9 of its postmaster":      thenRestart((*pgcluster.Cluster).KillPostmaster),
		"kill -9 of one of its backends": killBackend,
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := durable(t, pgcluster.Options{})
			s := besiege(t, "PostgreSQL: "+how+", three times", c.URL(), settings{"DELIVERY_MAX_IN_FLIGHT": fmt.Sprint(inFlight)})
			p := s.start(nil)
			s.settle(p)
			s.produce(4, load(4000))
			for n := range times {
				s.awaitAccepted(load(1000) * (n + 1))
				begun := time.Now()
				if err := end(t, c); err != nil {
					t.Fatal(err)
				}
				t.Logf("%v to end it and have it back", time.Since(begun).Round(time.Millisecond))
			}
			s.verdict(times * inFlight)
			p.alive()
		})
	}
}

func thenRestart(end func(*pgcluster.Cluster) error) func(t *testing.T, c *pgcluster.Cluster) error {
	return func(t *testing.T, c *pgcluster.Cluster) error {
		t.Helper()
		if err := end(c); err != nil {
			return err
		}
		return c.Restart(t.Context())
	}
}

// killBackend kills a session of Postrider's. PostgreSQL then ends all others and recovers, as after a crash.
func killBackend(t *testing.T, c *pgcluster.Cluster) error {
	t.Helper()
	conn := connect(t, c.AdminURL())
	var pid int
	err := conn.QueryRow(t.Context(), `SELECT pid FROM pg_stat_activity WHERE application_name = 'postrider' ORDER BY state_change DESC LIMIT 1`).Scan(&pid)
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// connect is a connection that is closed when the test is over, if it is there still.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// alive fails the test if the process has ended.
func (p *process) alive() {
	p.t.Helper()
	select {
	case err := <-p.done:
		p.done <- err
		p.t.Errorf("the process has ended: %v\n%s", err, p.logged())
	default:
	}
}

// Statements fail now and then with what PostgreSQL says when it is not their fault: for a clash, a server that is being
// shut down or takes no writes, for want of memory, disk or connections. Each costs another try.
func TestChaosPostgresRefuses(t *testing.T) {
	t.Parallel()
	codes := []string{"40001", "40P01", "57P01", "25006", "53100", "53200", "57014"}
	s := ownDatabase(t, "PostgreSQL: statements refused ("+strings.Join(codes, ", ")+")", nil)
	p := s.start(nil)
	s.settle(p)
	conn := connect(t, s.database)
	for _, sql := range []string{
		`CREATE FUNCTION postrider.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		   IF random() < 0.05 THEN RAISE EXCEPTION 'refused' USING ERRCODE = TG_ARGV[floor(random() * TG_NARGS)::int]; END IF;
		   RETURN NULL; END $$`,
		`CREATE TRIGGER refuse AFTER INSERT OR UPDATE OR DELETE ON postrider.deliveries FOR EACH STATEMENT
		   EXECUTE FUNCTION postrider.refuse('` + strings.Join(codes, "', '") + `')`,
		`CREATE TRIGGER refuse AFTER INSERT ON postrider.events FOR EACH STATEMENT EXECUTE FUNCTION postrider.refuse('40001', '40P01')`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s.produce(8, load(4000))
	s.verdict(0)
	p.alive()
}

// Others lock what Postrider is about to lock, in another order. They wait longer than it does, so it is the one that
// PostgreSQL ends.
func TestChaosPostgresDeadlocks(t *testing.T) {
	t.Parallel()
	c := durable(t, pgcluster.Options{Settings: map[string]string{"deadlock_timeout": "10ms"}})
	s := besiege(t, "PostgreSQL: deadlocks", c.URL(), nil)
	p := s.start(nil)
	s.settle(p)
	s.produce(4, load(4000))
	conn := connect(t, strings.Replace(c.AdminURL(), "/postgres?", "/"+pgcluster.Role+"?", 1))
	if _, err := conn.Exec(t.Context(), `SET deadlock_timeout = '1min'`); err != nil {
		t.Fatal(err)
	}
	for s.count() < load(4000) {
		// The rows of a record from the other end, one by one: it has the first ones by then.
		_, err := conn.Exec(t.Context(), `DO $$ DECLARE r record; BEGIN
		    FOR r IN SELECT shard, id FROM postrider.deliveries WHERE state = 'in_flight' ORDER BY id DESC LIMIT 30 LOOP
		        PERFORM pg_sleep(0.0005), id FROM postrider.deliveries d WHERE d.shard = r.shard AND d.id = r.id FOR UPDATE;
		    END LOOP; END $$`)
		if err != nil {
			t.Fatal(err)
		}
	}
	s.verdict(0)
	p.alive()
	var n int
	s.query(`SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()`, &n)
	t.Logf("%d deadlocks", n)
	if n == 0 {
		t.Error("no deadlock came about")
	}
}

// The server takes no writes for a while, as a primary that has become a standby. Postrider asks anew for a connection, and
// goes on when there is one that does.
func TestChaosPostgresReadOnly(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t, "PostgreSQL: read-only for a while, and sessions ended, three times", nil)
	p := s.start(nil)
	s.settle(p)
	s.produce(4, load(4000))
	conn := connect(t, s.database)
	do := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	name := conn.Config().Database
	for n := range 3 {
		s.awaitAccepted(load(1000) * (n + 1))
		do(`ALTER DATABASE ` + name + ` SET default_transaction_read_only = on`)
		do(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'postrider'`)
		s.awaitRefused(p)
		do(`SET default_transaction_read_only = off`)
		do(`ALTER DATABASE ` + name + ` RESET default_transaction_read_only`)
	}
	s.verdict(3 * 256)
	p.alive()
}

// awaitRefused waits until an enqueue is answered with 503.
func (s *siege) awaitRefused(p *process) {
	s.t.Helper()
	eventually(s.t, func() string { return s.notRefused(p) })
}

// notRefused says why an enqueue is not answered with 503; "" if it is. None is accepted: the endpoint is not there.
func (s *siege) notRefused(p *process) string {
	got, err := p.try(http.MethodPost, "/v1/tenants/"+s.tenant+"/events", "application/json",
		[]byte(`{"type":"siege","payload":1,"endpoint_ids":["ep_000000000000000"]}`))
	if err != nil || got.status != http.StatusServiceUnavailable {
		return fmt.Sprintf("%s: an enqueue is not refused: %d, %v", s.fault, got.status, err)
	}
	return ""
}

// Somebody else has all connections that the server gives, at the start and while Postrider runs.
func TestChaosTooManyConnections(t *testing.T) {
	t.Parallel()
	c := durable(t, pgcluster.Options{Settings: map[string]string{"max_connections": "30"}})
	s := besiege(t, "PostgreSQL: no connections left, three times", c.URL(), nil)
	s.start(nil).stop() // the tables are there
	leave := occupy(t, c.URL())
	refusesToStart(t, s, "too many clients", "remaining connection slots")
	leave()

	p := s.start(nil)
	s.settle(p)
	admin := connect(t, c.AdminURL())
	s.produce(4, load(4000))
	for n := range 3 {
		s.awaitAccepted(load(1000) * (n + 1))
		leave = occupy(t, c.URL())
		eventually(t, func() string { // it goes on with as few as one
			_, err := admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'postrider'`)
			if err != nil {
				return err.Error()
			}
			return s.notRefused(p)
		})
		leave()
	}
	s.verdict(3 * 256)
	p.alive()
}

// occupy takes all connections that are left, and those that are given back, until leave. It returns when there are none.
func occupy(t *testing.T, url string) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done, full := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		none := sync.OnceFunc(func() { close(full) })
		for ctx.Err() == nil {
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				none()
				continue
			}
			defer conn.Close(context.Background()) // when all of them are given back
		}
	}()
	<-full
	return func() { cancel(); <-done }
}

// refusesToStart starts a process that cannot: it says why in one line, and ends.
func refusesToStart(t *testing.T, s *siege, anyOf ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "serve")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // it says what it waits for
	cmd.Env = []string{"HOME=" + t.TempDir(), "POSTRIDER_DATABASE_URL=" + s.database, "POSTRIDER_SECRETS_KEYS=" + sealKey, "POSTRIDER_HTTP_ADDR=127.0.0.1:0"}
	out, err := cmd.CombinedOutput()
	_, said, _ := strings.Cut(strings.TrimSpace(string(out)), "\n") // "starting" comes first
	if err == nil || strings.Count(said, "\n") != 0 || !strings.Contains(said, anyOf[0]) && !strings.Contains(said, anyOf[1]) {
		t.Errorf("a start without a connection ends with %v and says\n%s", err, said)
	}
	t.Logf("a start without a connection says: %s", said)
}
