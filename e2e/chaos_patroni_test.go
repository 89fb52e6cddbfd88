//go:build chaos || ops

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// patroni is a cluster of two PostgreSQL servers under Debian's Patroni, with one etcd, all on loopback: what an operator
// has on three machines. A machine is what works in one folder, so it can be lost, frozen and brought back as a whole.
type patroni struct {
	t    *testing.T
	dir  string
	bin  string // PostgreSQL's programs
	as   *syscall.Credential
	etcd *machine
	two  [2]*machine
}

const (
	patroniPatience = 90 * time.Second // for a cluster to be made, or whole again
	patroniPassword = "of-the-cluster-of-one-test"
)

// newPatroni makes a cluster and returns when its standby is a synchronous one.
func newPatroni(t *testing.T) *patroni {
	t.Helper()
	c := &patroni{t: t, bin: serverPrograms(t)}
	// Its name is one that package pgcluster clears away if a killed test leaves it behind.
	var err error
	if c.dir, err = os.MkdirTemp(memory(), "postrider-pg-patroni-"); err != nil { //nolint:usetesting // that one is closed to PostgreSQL's user
		t.Fatal(err)
	}
	t.Cleanup(c.end)
	if os.Geteuid() == 0 { // as PostgreSQL does not run as root
		c.as = account(t, "postgres")
	}
	c.own(c.dir)
	c.etcd = c.machine("etcd")
	c.etcd.api = freePort(t) // of its peers, of which there are none
	client, peer := address("http://", c.etcd.port), address("http://", c.etcd.api)
	c.etcd.program, c.etcd.args = "etcd", []string{
		"--data-dir", filepath.Join(c.etcd.dir, "data"), "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer, "--unsafe-no-fsync", "--enable-v2",
	}
	c.etcd.start()
	for n := range c.two {
		m := c.machine(fmt.Sprint("node", n+1))
		m.api = freePort(t)
		m.program, m.args = "patroni", []string{filepath.Join(m.dir, "patroni.yml")}
		m.configure()
		c.two[n] = m
		m.start()
	}
	c.whole()
	c.provision()
	return c
}

// The times are as short as two busy cores bear; in production they are Patroni's own, 30, 10 and 10 s.
//
// By etcd's older API (etcd, not etcd3): by the newer one Patroni 3.0.2, which Debian 12 has, overwrites a leader's key that is
// another's by now when it has stood still, and so throws away what the new primary has taken
// (https://github.com/patroni/patroni/pull/2689, in 3.0.3).
const patroniConfig = `
scope: postrider
name: %[1]s
restapi: {listen: "127.0.0.1:%[2]d", connect_address: "127.0.0.1:%[2]d"}
etcd: {host: "127.0.0.1:%[3]d"}
bootstrap:
  dcs:
    ttl: 8
    loop_wait: 1
    retry_timeout: 3
    synchronous_mode: true
    postgresql:
      use_pg_rewind: true
      parameters: {max_connections: 80, wal_keep_size: 256MB, shared_buffers: 32MB}
  initdb: [{encoding: UTF8}, {locale: C}, data-checksums]
postgresql:
  listen: "127.0.0.1:%[4]d"
  connect_address: "127.0.0.1:%[4]d"
  bin_dir: %[5]s
  data_dir: %[6]s/data
  pgpass: %[6]s/pgpass
  authentication:
    superuser: {username: postgres, password: %[7]s}
    replication: {username: replicator, password: %[7]s}
    rewind: {username: rewinder, password: %[7]s}
  pg_hba: ["host all all 127.0.0.1/32 scram-sha-256", "host replication replicator 127.0.0.1/32 scram-sha-256"]
  parameters: {unix_socket_directories: "", fsync: "off", dynamic_shared_memory_type: mmap}
`

func (m *machine) configure() {
	text := fmt.Sprintf(patroniConfig, m.name, m.api, m.etcd.port, m.port, m.bin, m.dir, patroniPassword)
	if err := os.WriteFile(m.args[0], []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
	m.own(m.args[0])
}

// node is how Patroni sees a machine, by its REST API.
type node struct{ Name, Role, State string }

func (c *patroni) nodes() (all []node, err error) {
	for _, m := range c.two {
		var got struct{ Members []node }
		if err = c.rest(m, http.MethodGet, "/cluster", nil, &got); err == nil {
			return got.Members, nil
		}
	}
	return nil, err
}

// rest asks a machine's Patroni.
func (c *patroni) rest(m *machine, method, path string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if method == http.MethodGet { // a frozen one does not answer: ask the other
		ctx, cancel = context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, method, address("http://", m.api)+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var said bytes.Buffer
	if _, err := said.ReadFrom(resp.Body); err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: status %d: %s", method, path, resp.StatusCode, said.String())
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(said.Bytes(), into)
}

// until waits for the cluster to be as ok says; it gives the leader and the other.
func (c *patroni) until(what string, ok func(leader, other node) bool) (leader, other *machine) {
	c.t.Helper()
	late := time.After(patroniPatience)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		all, err := c.nodes()
		var l, o node
		for _, one := range all {
			if one.Role == "leader" {
				l = one
			} else {
				o = one
			}
		}
		if err == nil && l.State == "running" && ok(l, o) {
			if l.Name == c.two[0].name {
				return c.two[0], c.two[1]
			}
			return c.two[1], c.two[0]
		}
		select {
		case <-tick.C:
		case <-late:
			c.t.Fatalf("%s: %v %v", what, all, err)
		}
	}
}

// whole waits until a leader has a synchronous standby.
func (c *patroni) whole() (leader, standby *machine) {
	c.t.Helper()
	return c.until("there is no synchronous standby", func(_, other node) bool { return other.Role == "sync_standby" })
}

// ledBy waits until the machine is the leader.
func (c *patroni) ledBy(m *machine) {
	c.t.Helper()
	c.until("the standby did not take over", func(leader, _ node) bool { return leader.Name == m.name })
}

// provision makes the database `postrider`, whose owner is no superuser, and waits until the standby has it, too: a commit
// waits for what is written there, not for what can be read.
func (c *patroni) provision() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.url("postgres", "postgres"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "SET synchronous_commit = remote_apply"); err != nil {
		c.t.Fatal(err)
	}
	for _, sql := range []string{
		"CREATE ROLE postrider LOGIN PASSWORD '" + patroniPassword + "'", "CREATE DATABASE postrider OWNER postrider",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			c.t.Fatal(err)
		}
	}
}

// url names both machines; whoever uses it finds the one that takes writes.
func (c *patroni) url(role, database string) string {
	return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d,127.0.0.1:%d/%s?sslmode=disable&target_session_attrs=read-write",
		role, patroniPassword, c.two[0].port, c.two[1].port, database)
}

// end leaves nothing behind, but for the logs in that of a test that failed.
func (c *patroni) end() {
	for _, m := range append(c.two[:], c.etcd) {
		if m == nil {
			continue
		}
		m.lose()
		m.release()
		if !c.t.Failed() {
			continue
		}
		logs, _ := filepath.Glob(filepath.Join(m.dir, "log"))
		for _, path := range logs {
			if text, err := os.ReadFile(path); err == nil {
				c.t.Logf("%s:\n%s", path, text[max(0, len(text)-64<<10):])
			}
		}
	}
	if err := os.RemoveAll(c.dir); err != nil {
		c.t.Error(err)
	}
}

// serverPrograms is where Debian, whose Patroni it is, keeps PostgreSQL's programs.
func serverPrograms(t *testing.T) string {
	t.Helper()
	all, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(all) == 0 {
		t.Fatalf("PostgreSQL's server is not installed (scripts/deps server): %v", err)
	}
	return filepath.Dir(all[len(all)-1]) // versions have two digits
}

// memory is a folder in memory, else the system's temporary one.
func memory() string {
	if _, err := os.Stat("/dev/shm"); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return "/dev/shm"
}
