package intake_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
)

const enqueueSQL = `SELECT postrider.enqueue(tenant => $1, type => $2, payload => $3, content_type => $4, uid => $5, group_key => $6,
	deliver_at => $7, endpoint_ids => $8, metadata => $9)`

// liveDesk has the database's clock, as the function has.
func liveDesk(t testing.TB) *desk {
	t.Helper()
	d := newDesk(t)
	d.clock = time.Now()
	return d
}

type queryRower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// enqueue is postrider.enqueue.
func enqueue(ctx context.Context, db queryRower, tenant string, ev intake.Event) (id.ID, error) {
	var metadata []byte
	if ev.Metadata != nil {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(ev.Metadata); err != nil {
			return id.ID{}, err
		}
		metadata = b.Bytes()
	}
	if ev.Payload == nil {
		ev.Payload = []byte{}
	}
	var text string
	err := db.QueryRow(ctx, enqueueSQL, tenant, ev.Type, ev.Payload, ev.ContentType, ev.UID, ev.GroupKey, ev.DeliverAt, ev.EndpointIDs,
		metadata).Scan(&text)
	if err != nil {
		return id.ID{}, err
	}
	return id.Event.Parse(text)
}

// enqueue is for what must be taken, in a transaction of its own.
func (d *desk) enqueue(t testing.TB, tenant id.ID, ev intake.Event) id.ID {
	t.Helper()
	evt, err := enqueue(t.Context(), d.db, id.Tenant.Format(tenant), ev)
	if err != nil {
		t.Fatal(err)
	}
	return evt
}

// fanOut fans out all that there is.
func (d *desk) fanOut(t testing.TB) (total int) {
	t.Helper()
	for {
		n, err := d.RouteOnce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if total += n; n == 0 {
			return total
		}
	}
}

// staffed makes a tenant with an endpoint of each kind, by uids.
func (d *desk) staffed(t testing.TB) id.ID {
	t.Helper()
	ten := d.tenant(t)
	d.endpoint(t, ten, "all")
	d.endpoint(t, ten, "orders", "order.*")
	d.endpoint(t, ten, "invoices", "invoice.*")
	d.setStatus(t, d.endpoint(t, ten, "disabled"), "disabled")
	d.setStatus(t, d.endpoint(t, ten, "dead"), "dead")
	for uid, set := range map[string]string{
		"deleted": `deleted_at = now()`, "ordered": `ordering = 'group'`, "wants": `filter = 'payload.n == 1'`,
		"refuses": `filter = 'payload.n == 2'`, "fails": `filter = 'payload.missing == 1'`,
		"by_event": `filter = 'event.type == "order.paid" && event.group_key == "g"'`,
	} {
		ep := d.endpoint(t, ten, uid)
		d.exec(t, `UPDATE endpoints SET `+set+` WHERE shard = $1 AND id = $2`, ep.Shard, ep.N)
	}
	return ten
}

// rowsSQL gives all that is stored of a tenant's events but ids and times, which two of them cannot have in common.
const rowsSQL = `
SELECT to_jsonb(e) - '{shard,id,tenant_id,delivery_ids,skipped}'::text[] || jsonb_build_object(
	'delivery_ids', e.delivery_ids IS NOT NULL AND e.delivery_ids = ARRAY(SELECT d.id FROM deliveries d WHERE d.event_id = e.id ORDER BY d.id),
	'skipped', (SELECT jsonb_agg(s - 'e' || jsonb_build_object('e', (SELECT p.uid FROM endpoints p WHERE p.id = (s ->> 'e')::bigint))
		ORDER BY (SELECT p.uid FROM endpoints p WHERE p.id = (s ->> 'e')::bigint)) FROM jsonb_array_elements(e.skipped) s),
	'skipped_null', e.skipped IS NULL,
	'deliveries', (SELECT jsonb_agg(to_jsonb(d) - '{shard,id,tenant_id,event_id,endpoint_id,next_retry_at,group_id}'::text[] || jsonb_build_object(
		'endpoint', (SELECT p.uid FROM endpoints p WHERE p.id = d.endpoint_id),
		'due', CASE WHEN d.state = 'scheduled' THEN d.next_retry_at END, 'own group', d.group_id = d.id,
		'group', nullif(d.group_id, d.id)) ORDER BY (SELECT p.uid FROM endpoints p WHERE p.id = d.endpoint_id))
		FROM deliveries d WHERE d.event_id = e.id),
	'keys', (SELECT jsonb_agg(to_jsonb(k) - '{shard,tenant_id,event_ids,created_at}'::text[]) FROM idempotency_keys k
		WHERE k.tenant_id = e.tenant_id AND k.event_ids = ARRAY[e.id]),
	'rest', (SELECT count(*) FROM events_unrouted u WHERE u.event_id = e.id))
FROM events e WHERE e.id = $1`

func (d *desk) rowsOf(t testing.TB, evt id.ID) (rows map[string]any) {
	t.Helper()
	if err := d.db.QueryRow(t.Context(), rowsSQL, evt.N).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// parityCases are events that both ways take.
func parityCases(now time.Time) map[string]intake.Event {
	past, future := now.Add(-time.Hour), now.Add(time.Hour)
	large := bytes.Repeat([]byte{0, 0xff, '{', 0x80}, 1<<18)
	return map[string]intake.Event{
		"plain":                {Type: "order.paid", Payload: []byte(`{"n": 1}`)},
		"another type":         {Type: "user.made", Payload: []byte(`{"n": 2}`)},
		"the pattern's head":   {Type: "order", Payload: []byte(`{"n": 2}`)},
		"a type of 128":        {Type: strings.Repeat("aZ0_.-xy", 16), Payload: []byte(`{}`)},
		"no payload":           {Type: "order.paid"},
		"no JSON":              {Type: "order.paid", Payload: []byte(`no JSON`)},
		"bytes":                {Type: "order.paid", Payload: []byte{0, 1, 0xff, '\\', '\''}, ContentType: "application/octet-stream"},
		"1 MiB":                {Type: "order.paid", Payload: large, ContentType: "image/png", UID: "large"},
		"text":                 {Type: "order.paid", Payload: []byte(`{"n": 1}`), ContentType: " text/plain; charset=utf-8 "},
		"a type of vs":         {Type: "order.paid", Payload: []byte("v"), ContentType: "\vvideo/vnd.v\v"},
		"JSON by suffix":       {Type: "order.paid", Payload: []byte(`{"n": 1}`), ContentType: `application/cloudevents+json; a="b;c=d"`},
		"a group":              {Type: "order.paid", Payload: []byte(`{"n": 1}`), GroupKey: "g"},
		"a group in Greek":     {Type: "order.paid", Payload: []byte(`{"n": 1}`), GroupKey: strings.Repeat("λ", 256), UID: "λ-less"[2:]},
		"later":                {Type: "order.paid", Payload: []byte(`{"n": 1}`), DeliverAt: &future, UID: "later"},
		"too late":             {Type: "order.paid", Payload: []byte(`{"n": 1}`), DeliverAt: &past, UID: "past"},
		"a uid":                {Type: "order.paid", Payload: []byte(`{"n": 1}`), UID: "a:b.c-d_E9"},
		"all of it":            {Type: "order.paid", Payload: []byte(`{"n": 1}`), UID: "all", GroupKey: "g", DeliverAt: &future, EndpointIDs: []string{"all", "wants"}, Metadata: map[string]any{"a": "b"}},
		"named":                {Type: "order.paid", Payload: []byte(`{"n": 1}`), EndpointIDs: []string{"wants", "all", "all", "dead", "refuses"}, UID: "named"},
		"named, none wants it": {Type: "order.paid", Payload: []byte(`{"n": 1}`), EndpointIDs: []string{"invoices"}},
		"metadata":             {Type: "order.paid", Metadata: map[string]any{"b": []any{1, 2.5, nil, true, map[string]any{"z": "ä", "Z": ""}}, "a": "<&>\u2028\x7f\"\\\n\b"}, UID: "m"},
		"empty metadata":       {Type: "order.paid", Metadata: map[string]any{}, UID: "em"},
		"16 KiB of metadata":   {Type: "order.paid", Metadata: map[string]any{"a": strings.Repeat("x", 16<<10-8)}, UID: "xl"},
	}
}

// What Accept and postrider.enqueue store of the same event is the same, column by column.
func TestBothWaysInStoreTheSame(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	over, within := d.staffed(t), d.staffed(t)
	for name, ev := range parityCases(d.now()) {
		accepted := d.accept(t, over, "", ev)[0]
		enqueued := d.enqueue(t, within, ev)
		if n := d.fanOut(t); n != 1 {
			t.Fatalf("%s: %d were fanned out", name, n)
		}
		a, b := d.rowsOf(t, accepted.ID), d.rowsOf(t, enqueued)
		if a["delivery_ids"] != true || !reflect.DeepEqual(a, b) {
			for column := range maps.Keys(a) {
				if !reflect.DeepEqual(a[column], b[column]) {
					t.Errorf("%s: %s is %v, over HTTP %v", name, column, b[column], a[column])
				}
			}
		}
		read, err := d.Event(t.Context(), within, id.Event.Format(enqueued))
		if err != nil || read.Status != accepted.Status || read.FanOut != accepted.Deliveries {
			t.Errorf("%s: it is %s with %d deliveries (%v), over HTTP %s with %d", name, read.Status, read.FanOut, err, accepted.Status,
				accepted.Deliveries)
		}
	}
	d.whole(t)
}

// A uid that came in one way is known to the other: the digests are the same.
func TestAUIDIsOneForBothWays(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	ten := d.staffed(t)
	for name, ev := range parityCases(d.now()) {
		ev.UID = "first-" + regexp.MustCompile(`\W`).ReplaceAllString(name, "-")
		made := d.enqueue(t, ten, ev)
		for _, routed := range []bool{false, true} {
			rs, replayed, err := d.Accept(t.Context(), ten, "", []intake.Event{ev})
			if err != nil || !replayed || rs[0].ID != made {
				t.Fatalf("%s: enqueued first, accepted then: %v, %v, %v", name, rs, replayed, err)
			}
			if !routed && (rs[0].Deliveries != 0 || rs[0].Status != "queued" && rs[0].Status != "scheduled") {
				t.Errorf("%s: before the fan-out it is %s with %d deliveries", name, rs[0].Status, rs[0].Deliveries)
			}
			if !routed {
				d.fanOut(t)
			}
		}
		ev.UID = "second" + ev.UID
		first := d.accept(t, ten, "", ev)[0].ID
		if again := d.enqueue(t, ten, ev); again != first {
			t.Errorf("%s: accepted first, enqueued then: %v, want %v", name, again, first)
		}
		ev.Payload = append([]byte("other"), ev.Payload[:min(len(ev.Payload), 9)]...)
		if _, err := enqueue(t.Context(), d.db, id.Tenant.Format(ten), ev); sqlstate(err) != "23505" {
			t.Errorf("%s: other content: %v", name, err)
		}
	}
	d.fanOut(t)
	d.whole(t)
}

func sqlstate(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

// What is refused is refused with the same words, at the same place, and leaves nothing.
func TestBothWaysRefuseTheSame(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	ten := d.staffed(t)
	ahead, deep := d.now().Add(91*24*time.Hour), map[string]any{}
	for n := 0; n < 33; n++ {
		deep = map[string]any{"d": deep}
	}
	for name, c := range map[string]struct {
		ev    intake.Event
		state string
	}{
		"no type":                     {intake.Event{}, "22023"},
		"a type of 129":               {intake.Event{Type: strings.Repeat("x", 129)}, "22023"},
		"a blank in a type":           {intake.Event{Type: "a b"}, "22023"},
		"a letter in a type":          {intake.Event{Type: "ä"}, "22023"},
		"a line in a type":            {intake.Event{Type: "a\n"}, "22023"},
		"a uid of 129":                {intake.Event{Type: "t", UID: strings.Repeat("x", 129)}, "22023"},
		"a slash in a uid":            {intake.Event{Type: "t", UID: "a/b"}, "22023"},
		"a group of 257":              {intake.Event{Type: "t", GroupKey: strings.Repeat("ä", 257)}, "22023"},
		"a tab in a group":            {intake.Event{Type: "t", GroupKey: "a\tb"}, "22023"},
		"C1 in a group":               {intake.Event{Type: "t", GroupKey: "a\u0085b"}, "22023"},
		"no media type":               {intake.Event{Type: "t", ContentType: "json"}, "22023"},
		"a bad parameter":             {intake.Event{Type: "t", ContentType: "text/plain; charset"}, "22023"},
		"twice a parameter":           {intake.Event{Type: "t", ContentType: "text/plain; a=1; A=2"}, "22023"},
		"a long media type":           {intake.Event{Type: "t", ContentType: "text/" + strings.Repeat("x", 251)}, "22023"},
		"a letter in a type of media": {intake.Event{Type: "t", ContentType: `text/plain; a="ä"`}, "22023"},
		"in 91 days":                  {intake.Event{Type: "t", DeliverAt: &ahead}, "22023"},
		"no endpoints":                {intake.Event{Type: "t", EndpointIDs: []string{}}, "22023"},
		"101 endpoints":               {intake.Event{Type: "t", EndpointIDs: slices.Repeat([]string{"all"}, 101)}, "22023"},
		"unknown endpoint":            {intake.Event{Type: "t", EndpointIDs: []string{"all", "deleted"}}, "22023"},
		"large metadata":              {intake.Event{Type: "t", Metadata: map[string]any{"a": strings.Repeat("x", 16<<10)}}, "22023"},
		"deep metadata":               {intake.Event{Type: "t", Metadata: deep}, "22023"},
		"a large number":              {intake.Event{Type: "t", Metadata: map[string]any{"a": json.Number("1e309")}}, "22023"},
		"a large payload":             {intake.Event{Type: "t", Payload: make([]byte, 1<<20+1)}, "54000"},
	} {
		_, _, err := d.Accept(t.Context(), ten, "", []intake.Event{c.ev})
		var f *fault.Error
		if !errors.As(err, &f) {
			t.Fatalf("%s: %v", name, err)
		}
		want := f.Detail // of the one that is too large
		if len(f.Fields) > 0 {
			want = f.Fields[0].Pointer + ": " + f.Fields[0].Detail
		}
		_, err = enqueue(t.Context(), d.db, id.Tenant.Format(ten), c.ev)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != c.state || strings.Replace(pgErr.Message, ": is", " is", 1) != strings.Replace(want, ": is", " is", 1) {
			t.Errorf("%s: %v, want %s %s", name, err, c.state, want)
		}
	}
	for _, kind := range prefixes(t) {
		if _, err := enqueue(t.Context(), d.db, id.Tenant.Format(ten), intake.Event{Type: "t", UID: kind + "_x"}); sqlstate(err) != "22023" {
			t.Errorf("a uid that begins with %s_: %v", kind, err)
		}
	}
	for _, tenant := range []string{
		"", "nobody", id.Tenant.Format(d.ids.NewTenant()), strings.ToUpper(id.Tenant.Format(ten)), id.Tenant.Format(ten) + "0", "ten_", "ten_u6ez91zp0r3f0",
		"ten_g" + id.Tenant.Format(ten)[5:],
	} {
		if _, err := enqueue(t.Context(), d.db, tenant, order(1)); sqlstate(err) != "P0002" {
			t.Errorf("tenant %q: %v", tenant, err)
		}
	}
	for sql, want := range map[string]string{
		`SELECT postrider.enqueue('` + id.Tenant.Format(ten) + `', 't', NULL)`:                            "22023",
		`SELECT postrider.enqueue('` + id.Tenant.Format(ten) + `', NULL, '')`:                             "22023",
		`SELECT postrider.enqueue(NULL, 't', '')`:                                                         "P0002",
		`SELECT postrider.enqueue('` + id.Tenant.Format(ten) + `', 't', '', metadata => '[]')`:            "22023",
		`SELECT postrider.enqueue('` + id.Tenant.Format(ten) + `', 't', '', metadata => 'null')`:          "22023",
		`SELECT postrider.enqueue('` + id.Tenant.Format(ten) + `', 't', '', deliver_at => 'infinity')`:    "22023",
		`SELECT postrider.enqueue('` + id.Tenant.Format(ten) + `', 't', '', deliver_at => '-infinity')`:   "22023",
		`SELECT postrider.enqueue('` + id.Tenant.Format(ten) + `', 't', '', endpoint_ids => ARRAY[NULL])`: "22023",
	} {
		if _, err := d.db.Exec(t.Context(), sql); sqlstate(err) != want {
			t.Errorf("%s: %v", sql, err)
		}
	}
	for _, table := range []string{"events", "events_unrouted", "idempotency_keys"} {
		if n := d.count(t, `SELECT count(*) FROM `+table); n != 0 {
			t.Errorf("%d rows in %s", n, table)
		}
	}
}

// prefixes are those of all kinds of ids that there are.
func prefixes(t *testing.T) (all []string) {
	t.Helper()
	source, err := os.ReadFile("../id/id.go")
	if err != nil {
		t.Fatal(err)
	}
	_, consts, _ := strings.Cut(string(source), "type Kind string")
	for _, m := range regexp.MustCompile(`(?m)^\s\w+ +(?:Kind )?= "([a-z]+)"`).FindAllStringSubmatch(consts, -1) {
		all = append(all, m[1])
	}
	if len(all) < 12 {
		t.Fatalf("the kinds of ids are %v", all)
	}
	return all
}

// The limit is what the processes that accept events have.
func TestThePayloadsLimitIsTheConfigurations(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	ten := d.tenant(t)
	for _, most := range []int64{10, 3 << 20} {
		i := intake.New(intake.Deps{DB: d.db, IDs: d.ids, Now: d.now, MaxPayload: most})
		for range 2 {
			if err := i.TellLimits(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		d.enqueue(t, ten, intake.Event{Type: "t", Payload: make([]byte, most)})
		if _, err := enqueue(t.Context(), d.db, id.Tenant.Format(ten), intake.Event{Type: "t", Payload: make([]byte, most+1)}); sqlstate(err) != "54000" {
			t.Errorf("one byte more than %d: %v", most, err)
		}
		if err := i.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// The ids are such as internal/id makes, of another maker: the top one of the 22 low bits is set.
func TestIDsOfTheDatabaseAreIDs(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	d.exec(t, `SELECT setval('enqueue_order', 2097151 * 3 - 3)`)
	seen := map[id.ID]bool{}
	for range 10 {
		ten := d.tenant(t)
		d.exec(t, `UPDATE tenants SET uid = 'u' || id WHERE id = $1`, ten.N)
		before := time.Now().Add(-5 * time.Millisecond)
		for _, named := range []string{id.Tenant.Format(ten), fmt.Sprint("u", ten.N)} {
			evt, err := enqueue(t.Context(), d.db, named, order(1))
			if err != nil {
				t.Fatal(err)
			}
			if evt.Shard != ten.Shard || evt.N>>21&1 != 1 || seen[evt] || evt.Time().Before(before) || evt.Time().After(time.Now()) {
				t.Errorf("%+v, made at %s", evt, evt.Time())
			}
			seen[evt] = true
		}
	}
	numbers := []int64{1, 31, 32, 1<<62 + 12345, 1<<63 - 1, 987654321987654321}
	for n, v := range numbers {
		want := id.ID{Shard: int16(n * 51), N: v}
		var text string
		var back int64
		if err := d.db.QueryRow(t.Context(), `SELECT 'evt_' || id_text($1, $2), id_number(left(id_text($1, $2), 13))`, want.Shard, want.N).Scan(&text, &back); err != nil {
			t.Fatal(err)
		}
		if text != id.Event.Format(want) || back != v {
			t.Errorf("%d is spelled %s and read as %d, want %s", v, text, back, id.Event.Format(want))
		}
	}
}

// Whoever logs in as a member of postrider_producer may enqueue, and nothing else.
func TestAProducerNeedsNoRightOnAnyTable(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	ten := d.tenant(t)
	d.endpoint(t, ten, "all")
	db := asProducer(t, d)
	evt, err := enqueue(t.Context(), db, id.Tenant.Format(ten), intake.Event{Type: "order.paid", UID: "u", EndpointIDs: []string{"all"}, Metadata: map[string]any{"a": 1}})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := enqueue(t.Context(), db, id.Tenant.Format(ten), intake.Event{Type: "order.paid", UID: "u", EndpointIDs: []string{"all"}, Metadata: map[string]any{"a": 1}}); err != nil || again != evt {
		t.Errorf("again: %v, %v", again, err)
	}
	for _, sql := range []string{
		`SELECT * FROM postrider.events`, `SELECT * FROM postrider.tenants`, `INSERT INTO postrider.intake_settings VALUES ('a', 1)`,
		`SELECT nextval('postrider.enqueue_order')`, `SELECT postrider.metadata_text('{}')`, `CREATE TABLE postrider.mine ()`,
		`SELECT * FROM postrider.events_unrouted`, `DELETE FROM postrider.events_unrouted`,
	} {
		if _, err := db.Exec(t.Context(), sql); sqlstate(err) != "42501" {
			t.Errorf("%s: %v", sql, err)
		}
	}
	// What a caller puts before the tables is not what the function finds.
	for _, sql := range []string{
		`CREATE TEMPORARY TABLE tenants AS SELECT 1 AS shard`, `CREATE TEMPORARY TABLE events ()`, `SET search_path = pg_temp, public`,
		`CREATE FUNCTION pg_temp.octet_length(bytea) RETURNS integer LANGUAGE sql AS 'SELECT 1/0'`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := enqueue(t.Context(), db, id.Tenant.Format(ten), order(1)); err != nil {
		t.Error(err)
	}
	// Nor do its settings change what the function means.
	spoken := intake.Event{Type: "order.paid", ContentType: `text/plain; a="b\"c"`, UID: "lines", Metadata: map[string]any{"a": "\u2028\u2029"}}
	accepted := d.accept(t, ten, "", spoken)[0].ID
	if _, err := db.Exec(t.Context(), `SET standard_conforming_strings = off`); err != nil {
		t.Fatal(err)
	}
	if evt, err := enqueue(t.Context(), db, id.Tenant.Format(ten), spoken); err != nil || evt != accepted {
		t.Errorf("where backslashes escape: %v, %v, want %v", evt, err, accepted)
	}
	if n := d.fanOut(t); n != 2 {
		t.Errorf("%d were fanned out", n)
	}
	d.whole(t)
}

// asProducer logs in as a role made for the test.
func asProducer(t *testing.T, d *desk) *pgx.Conn {
	t.Helper()
	admin := connect(t, pgtest.AdminURL(t))
	role := fmt.Sprint("postrider_test_", d.ids.Next())
	for _, sql := range []string{
		`CREATE ROLE ` + role + ` LOGIN PASSWORD 'secret' IN ROLE postrider_producer`,
		`GRANT TEMPORARY ON DATABASE ` + admin.Config().Database + ` TO ` + role,
	} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := pg.ParseURL(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg.User, cfg.Password = role, "secret"
	delete(cfg.RuntimeParams, "search_path")
	db, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = db.Close(ctx)
		admin := connect(t, pgtest.AdminURL(t))
		for _, sql := range []string{`DROP OWNED BY ` + role, `DROP ROLE ` + role} {
			if _, err := admin.Exec(ctx, sql); err != nil {
				t.Error(err)
			}
		}
	})
	return db
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(ctx) })
	return conn
}
