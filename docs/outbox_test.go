package docs_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/apitest"
	"github.com/postrider/postrider/internal/pgtest"
)

const outboxDocument = "docs/outbox.md"

// outbox is the document's table, in the database that the server has too, and its relay as a program.
type outbox struct {
	t     *testing.T
	s     *apitest.Server
	relay string
}

// newOutbox makes the table and builds the relay.
func newOutbox(t *testing.T) *outbox {
	t.Helper()
	relay := shop(t, map[string]string{
		"main.go": read(t, "docs/testdata/outbox.go"), "relay/relay.go": snippetOf(t, outboxDocument, "outbox: go"),
	})
	o := &outbox{t: t, s: apitest.Start(t), relay: relay}
	o.exec(o.s.DB, snippetOf(t, outboxDocument, "outbox: postgresql"))
	return o
}

func (o *outbox) exec(db *pgxpool.Pool, sql string) {
	o.t.Helper()
	if _, err := db.Exec(o.t.Context(), sql); err != nil {
		o.t.Fatalf("%v: %.200s", err, sql)
	}
}

// run runs the relay once, through url.
func (o *outbox) run(url, key string) (said string, ok bool) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, o.relay)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+pgtest.URL(o.t), "POSTRIDER_URL="+url, "POSTRIDER_API_KEY="+key)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// must runs the relay, which has to go well.
func (o *outbox) must(url string) {
	o.t.Helper()
	if said, ok := o.run(url, apitest.AdminKey); !ok {
		o.t.Fatal(said)
	}
}

// text gives the rows of a query of one column, joined.
func (o *outbox) text(sql string) string {
	o.t.Helper()
	var s string
	if err := o.s.DB.QueryRow(o.t.Context(), `SELECT coalesce(string_agg(v::text, ' ' ORDER BY n), '') FROM (`+sql+`) q (n, v)`).Scan(&s); err != nil {
		o.t.Fatal(err)
	}
	return s
}

// accepted is what of the events' payloads says which is which, in the order of acceptance.
func (o *outbox) accepted() string {
	o.t.Helper()
	return o.text(`SELECT id, convert_from(payload, 'UTF8') FROM postrider.events`)
}

func (o *outbox) waiting() string {
	o.t.Helper()
	return o.text(`SELECT id, payload FROM outbox WHERE refused IS NULL`)
}

// What the transaction wrote is enqueued once, with its own bytes, although answers get lost and rows come a second time.
func TestOutbox(t *testing.T) {
	t.Parallel()
	o := newOutbox(t)
	o.exec(o.s.DB, `CREATE TABLE orders (id bigint, state text); INSERT INTO orders VALUES (1001, 'open')`)
	o.exec(o.s.DB, snippetOf(t, outboxDocument, "outbox: write"))
	o.exec(o.s.DB, `INSERT INTO outbox (tenant, type, payload) SELECT 'demo', 'order.paid', n FROM generate_series(1, 1200) n`)
	o.exec(o.s.DB, `CREATE TABLE copy AS SELECT * FROM outbox`)
	want := o.waiting()
	if !strings.HasPrefix(want, `{"order": 1001, "amount": 49.90} 1 2 3 `) {
		t.Fatal(want)
	}
	proxy := apitest.Cut(t, o.s.URL, 2)
	o.must(proxy.URL)
	if got := o.accepted(); got != want || o.waiting() != "" || proxy.Passed.Load() != 5 {
		t.Errorf("%d calls left %q and made %s", proxy.Passed.Load(), o.waiting(), got)
	}
	// It died before it had deleted some of them, and new ones have come.
	o.exec(o.s.DB, `INSERT INTO outbox OVERRIDING SYSTEM VALUE SELECT * FROM copy WHERE id <= 700`)
	o.exec(o.s.DB, `INSERT INTO outbox (tenant, type, payload) VALUES ('demo', 'order.paid', '"new"')`)
	o.must(o.s.URL)
	if got := o.accepted(); got != want+` "new"` || o.waiting() != "" {
		t.Errorf("left %q and made %s", o.waiting(), got)
	}
}

// What is refused for good is put aside with the reason, and holds up nothing.
func TestOutboxPutsAside(t *testing.T) {
	t.Parallel()
	o := newOutbox(t)
	o.exec(o.s.DB, `INSERT INTO outbox (tenant, type, payload, deliver_at) VALUES
		('demo', 'order.paid', '1', NULL), ('demo', 'no type', '2', NULL), ('demo', 'order.paid', '3', now() + '91 days'),
		('demo', 'order.paid', '{no JSON', NULL), ('demo', 'order.paid', '5', now() + '1 day'),
		('demo', 'order.paid', '"' || repeat('6', 2000000) || '"', NULL),
		('demo', 'order.paid', '7', NULL)`)
	o.must(o.s.URL)
	if got := o.accepted(); got != "1 5 7" || o.waiting() != "" {
		t.Errorf("left %q and made %s", o.waiting(), got)
	}
	const why = `SELECT id, id || split_part(refused, ':', 1) FROM outbox`
	if got := o.text(why); !strings.HasPrefix(got, "2/events/1/type 3/events/1/deliver_at 4/events/3/payload 6/events/0/payload is ") {
		t.Error(got)
	}
	o.exec(o.s.DB, `UPDATE outbox SET type = 'order.paid', refused = NULL WHERE id = 2`)
	o.must(o.s.URL)
	if got := o.accepted(); got != "1 5 7 2" {
		t.Error(got)
	}
}

// A row whose number was taken earlier and that is committed later is neither passed over nor deleted unsent.
func TestOutboxLateCommit(t *testing.T) {
	t.Parallel()
	o := newOutbox(t)
	tx, err := o.s.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `INSERT INTO outbox (tenant, type, payload) VALUES ('demo', 'order.paid', '1')`); err != nil {
		t.Fatal(err)
	}
	o.exec(o.s.DB, `INSERT INTO outbox (tenant, type, payload) VALUES ('demo', 'order.paid', '2')`)
	o.must(o.s.URL)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.must(o.s.URL)
	if got := o.accepted(); got != "2 1" || o.waiting() != "" {
		t.Errorf("left %q and made %s", o.waiting(), got)
	}
}

// What is no row's fault puts none aside: they wait.
func TestOutboxWaits(t *testing.T) {
	t.Parallel()
	o := newOutbox(t)
	o.exec(o.s.DB, `INSERT INTO outbox (tenant, type, payload) VALUES ('demo', 'order.paid', '1'), ('demo', 'order.paid', '2')`)
	for name, c := range map[string]struct{ url, key string }{
		"another key": {o.s.URL, "prk_of_nobody"}, "nobody there": {"http://127.0.0.1:1", apitest.AdminKey},
		"another server's path": {o.s.URL + "/elsewhere", apitest.AdminKey},
	} {
		if said, ok := o.run(c.url, c.key); ok || said == "" || o.waiting() != "1 2" {
			t.Errorf("%s: %s; %q wait", name, said, o.waiting())
		}
	}
	// Nor does one tenant wait for another.
	o.exec(o.s.DB, `UPDATE outbox SET tenant = 'nobody' WHERE payload = '1'`)
	if said, ok := o.run(o.s.URL, apitest.AdminKey); ok || o.waiting() != "1" {
		t.Errorf("%s; %q wait", said, o.waiting())
	}
	o.exec(o.s.DB, `UPDATE outbox SET tenant = 'demo'`)
	o.must(o.s.URL)
	if got := o.accepted(); got != "2 1" {
		t.Error(got)
	}
}
