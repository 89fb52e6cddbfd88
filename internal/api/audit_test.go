package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/id"
)

// auditLog gives the entries that a key sees, oldest first.
func (w *world) auditLog(key, query string) []tree {
	w.t.Helper()
	entries := w.must(http.StatusOK, request{method: "GET", path: "/v1/audit-log?limit=250" + query, key: key}).list("data")
	slices.Reverse(entries)
	return entries
}

func (tr tree) object(name string) tree {
	o, _ := tr[name].(map[string]any)
	return o
}

// enqueues are the calls that change something and are not audited: the event itself is the record, or the attempt, and there
// are masses. The last one only looks like a change.
var enqueues = []string{
	"POST /v1/tenants/{tenant}/events", "POST /v1/tenants/{tenant}/events:batch", "POST /v1/tenants/{tenant}/events/{evt}",
	"POST /v1/tenants/{tenant}/endpoints/{ep}/ack", "POST /v1/tenants/{tenant}/endpoints/{ep}/filter:test",
}

// Every route that changes something, or shows a secret, leaves its entries: who, from where, to what. No other leaves any.
func TestEveryActIsInTheAuditLog(t *testing.T) {
	t.Parallel()
	for _, c := range calls {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			t.Parallel()
			reads := c.method == http.MethodGet || slices.Contains(enqueues, c.method+" "+c.path)
			if !reads && c.audits == "" {
				t.Fatal("it changes something: the table has to say which entry it leaves")
			}
			s := newStage(t)
			const name = "the one who does it"
			made := s.must(http.StatusCreated, request{
				method: "POST", path: "/v1/api-keys", body: `{"name":"` + name + `","scopes":["admin"]}`,
			})
			before := len(s.auditLog("", ""))
			answer := s.do(s.good(c, made.text("key"))).tree(t)
			var got []string
			for i, entry := range s.auditLog("", "")[before:] {
				by := entry.object("actor")
				if by.text("kind") == "system" {
					got = append(got, entry.text("action")+" by system")
					continue
				}
				got = append(got, entry.text("action"))
				if by.text("kind") != "api_key" || by.text("key_id") != made.text("id") || by.text("name") != name || entry.text("from") != "127.0.0.1" {
					t.Errorf("who and where from: %v", entry)
				}
				if object := s.objectOf(c, answer); entry.text("object_id") != object {
					t.Errorf("entry %d is about %s, not %s", i, entry.text("object_id"), object)
				}
				if tenant := entry.text("tenant_id"); (strings.HasPrefix(entry.text("object_id"), "key_") || strings.HasPrefix(entry.text("object_id"), "typ_") || strings.HasPrefix(c.path, "/v1/deliveries/") && c.audits == "job.created" ||
					entry.text("action") == "tenant.erased") != (tenant == "") {
					t.Errorf("the tenant is %q: %v", tenant, entry)
				}
			}
			if strings.Join(got, ", ") != c.audits {
				t.Errorf("entries %v, want %s", got, c.audits)
			}
		})
	}
}

// objectOf is what a call acts on: what it makes, else the last thing that its path names.
func (s *stage) objectOf(c call, answer tree) string {
	made := answer["id"] != nil // a link into a portal has no id: it is the tenant that was acted on
	if made && !strings.HasSuffix(c.path, "}") && c.method == http.MethodPost && (c.status == http.StatusCreated || c.audits == "job.created") {
		return answer.text("id")
	}
	named := c.path[strings.LastIndex(c.path, "{")+1:]
	if strings.HasPrefix(named, "type}") { // which has a number only there
		return s.typeID
	}
	return s.ids[named[:strings.IndexByte(named, '}')]]
}

// What is not to be told of is not done: with a log that takes no entries every audited call fails, shows no secret, and
// leaves the database as it was.
func TestWhatCannotBeToldIsNotDone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	if _, err := s.db.Exec(t.Context(), `ALTER TABLE audit_log ADD CONSTRAINT full_up CHECK (false) NOT VALID`); err != nil {
		t.Fatal(err)
	}
	before := s.fingerprint()
	walked := 0
	for _, c := range calls {
		if c.audits == "" {
			continue
		}
		walked++
		res := s.do(s.good(c, ""))
		if res.status != http.StatusInternalServerError {
			t.Errorf("%s %s: %d %s", c.method, c.path, res.status, res.body)
		}
		for _, secret := range []string{"whsec_", "prk_"} {
			if strings.Contains(string(res.body), secret) {
				t.Errorf("%s %s shows a secret: %s", c.method, c.path, res.body)
			}
		}
		if after := s.fingerprint(); after != before {
			t.Fatalf("%s %s changed something:\n%s\n\n%s", c.method, c.path, before, after)
		}
	}
	if walked < 15 {
		t.Errorf("only %d calls were walked", walked)
	}
}

// fingerprint is a sum of each table's rows, but for the notes of when a key was used last.
func (w *world) fingerprint() string {
	w.t.Helper()
	rows, err := w.db.Query(w.t.Context(), `
SELECT c.relname FROM pg_class c
 WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname <> 'nodes'
 ORDER BY 1`)
	if err != nil {
		w.t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 15 {
		w.t.Fatal(tables, err)
	}
	var sums []string
	for _, table := range tables {
		var n int
		var sum string
		err := w.db.QueryRow(w.t.Context(), `SELECT count(*), coalesce(md5(string_agg(r, '|' ORDER BY r)), '')
			FROM (SELECT (to_jsonb(t) - 'last_used_at')::text AS r FROM `+pgx.Identifier{table}.Sanitize()+` t) x`).Scan(&n, &sum)
		if err != nil {
			w.t.Fatal(err)
		}
		sums = append(sums, fmt.Sprint(table, " ", n, " ", sum))
	}
	return strings.Join(sums, "\n")
}

// A secret, the value of a header, a key or a URL's query is in no entry, nor in what is stored of it.
func TestEntriesHoldNoSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant("acme")
	const canary = "CANARY-31415926"
	ep := w.endpoint(tenant, `,"headers":{"X-Token":"`+canary+`-a"},"signature":{"scheme":"github","secret":"`+canary+`-secret-long"},"metadata":{"m":"`+canary+`"}`)
	at := "/v1/tenants/" + tenant + "/endpoints/" + ep
	patch := func(body string) { w.must(http.StatusOK, request{method: "PATCH", path: at, body: body}) }
	patch(`{"url":"https://example.com/new/hook?token=` + canary + `"}`)
	patch(`{"url":"https://example.com/new/hook?token=` + canary + `2"}`)
	patch(`{"headers":{"X-Token":"` + canary + `-b"}}`)
	patch(`{"headers":{"X-Other":"` + canary + `-c"}}`)
	patch(`{"metadata":{"m":"` + canary + `2"}}`)
	patch(`{"signature":{"scheme":"timestamped-hex","secret":"` + canary + `-other-long-one"}}`)
	w.must(http.StatusOK, request{method: "POST", path: at + "/secret/rotate", body: `{"overlap":"0s","secret":"` + canary + `-third-long-one"}`})
	w.must(http.StatusOK, request{method: "GET", path: at + "/secret"})
	w.must(http.StatusAccepted, request{method: "POST", path: at + "/test", body: `{"payload":"` + canary + `"}`})
	key := w.apiKey(tenant, "admin")

	var stored string
	if err := w.db.QueryRow(t.Context(), `SELECT string_agg(a::text, E'\n') FROM audit_log a`).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal(w.auditLog("", ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{stored, string(shown)} {
		for _, secret := range []string{"CANARY", "whsec_", key[8:], adminKey} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in the log: %s", secret, text)
			}
		}
	}
	var told []string
	for _, e := range w.auditLog("", "&object="+ep+"&action=endpoint.updated") {
		told = append(told, fmt.Sprint(e.object("details")["changes"]))
	}
	want := []string{
		"map[url:map[new:https://example.com/new/hook?… old:https://example.com/hook]]",
		"map[url:changed]",
		"map[headers:changed]",
		"map[headers:map[new:[X-Other] old:[X-Token]]]",
		"map[metadata:changed]",
		"map[signature.scheme:map[new:timestamped-hex old:github] signature.secret:changed]",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
}

func TestAuditLogShowsEachItsOwn(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ours := s.auditLog(s.keys["own admin"], "")
	if len(ours) == 0 {
		t.Error("a tenant's admin sees nothing of its own")
	}
	for _, e := range ours {
		if e.text("tenant_id") != s.ids["tenant"] {
			t.Errorf("a tenant's admin sees %v", e)
		}
		if from := e.text("from"); from != "" && from != "loopback" {
			t.Errorf("a tenant's admin sees that it was done from %s", from)
		}
	}
	theirs := s.auditLog(s.keys["other's admin"], "")
	both := len(ours) + len(theirs)
	if all := s.auditLog("", ""); len(all) <= both {
		t.Errorf("an operator sees %d, of tenants alone there are %d", len(all), both)
	}
	if got := s.auditLog(s.keys["own admin"], "&tenant=first"); len(got) != len(ours) {
		t.Errorf("by the uid it sees %d, not %d", len(got), len(ours))
	}
	s.refused(http.StatusNotFound, request{method: "GET", path: "/v1/audit-log?tenant=second", key: s.keys["own admin"]})
	if got := s.auditLog(s.keys["other's admin"], "&object="+s.ids["ep"]); len(got) != 0 {
		t.Errorf("another tenant's admin sees %v", got)
	}
}

func TestAuditLogFilters(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	patch := func(body string) {
		s.must(http.StatusOK, request{method: "PATCH", path: s.url("/v1/tenants/{tenant}/endpoints/{ep}", nil), body: body, key: s.keys["endpoints:write"]})
	}
	patch(`{"status":"disabled"}`)
	patch(`{"status":"disabled"}`) // changes nothing
	patch(`{"status":"enabled","description":"x"}`)
	all := s.auditLog("", "")
	status := s.auditLog("", "&action=endpoint.status_changed")
	if len(status) != 2 || fmt.Sprint(status[0].object("details")) != "map[changes:map[status:map[new:disabled old:enabled]] reason:disabled_by_user]" {
		t.Errorf("changes of the status: %v", status)
	}
	key := status[0].object("actor").text("key_id")
	middle := all[len(all)/2].text("at")
	for query, keep := range map[string]func(tree) bool{
		"&object=" + s.ids["ep"]:  func(e tree) bool { return e.text("object_id") == s.ids["ep"] },
		"&object=" + s.ids["key"]: func(e tree) bool { return e.text("object_id") == s.ids["key"] },
		"&actor=" + key:           func(e tree) bool { return e.object("actor").text("key_id") == key },
		"&actor=test":             func(e tree) bool { return e.object("actor").text("name") == "test" },
		"&actor=bootstrap":        func(e tree) bool { return e.object("actor").text("name") == "bootstrap" },
		"&actor=system":           func(e tree) bool { return e.object("actor").text("kind") == "system" },
		"&action=api_key.created": func(e tree) bool { return e.text("action") == "api_key.created" },
		"&tenant=first&action=api_key.created": func(e tree) bool {
			return e.text("action") == "api_key.created" && e.text("tenant_id") == s.ids["tenant"]
		},
		"&since=" + middle:                          func(e tree) bool { return e.text("at") >= middle },
		"&until=" + middle:                          func(e tree) bool { return e.text("at") < middle },
		"&object=" + id.Event.Format(id.ID{N: 1}):   func(tree) bool { return false },
		"&actor=" + url.QueryEscape("no such name"): func(tree) bool { return false },
	} {
		var want []string
		for _, e := range all {
			if keep(e) {
				want = append(want, e.text("id"))
			}
		}
		var got []string
		for _, e := range s.auditLog("", query) {
			got = append(got, e.text("id"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for query, at := range map[string]string{"object=nix": "?object", "since=today": "?since", "action=nix": "?action", "cursor=x": "?cursor", "object=ep_1": "?object"} {
		if p := s.refused(http.StatusUnprocessableEntity, request{method: "GET", path: "/v1/audit-log?" + query}); !p.pointsTo(at) {
			t.Errorf("%s: %+v", query, p)
		}
	}
	var paged []string
	for cursor := ""; ; {
		page := s.must(http.StatusOK, request{method: "GET", path: "/v1/audit-log?limit=4&cursor=" + cursor})
		for _, e := range page.list("data") {
			paged = append([]string{e.text("id")}, paged...)
		}
		if cursor = page.text("next_cursor"); cursor == "" {
			break
		}
	}
	var want []string
	for _, e := range all {
		want = append(want, e.text("id"))
	}
	if !slices.Equal(paged, want) {
		t.Errorf("page by page %v, want %v", paged, want)
	}
}

// The description lists every action, in the filter and in what is shown.
func TestAuditActionsAreDescribed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := make([]string, 0, len(audit.Actions()))
	for _, a := range audit.Actions() {
		names = append(names, string(a))
	}
	list, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(w.description()), string(list)); n != 2 {
		t.Errorf("the actions %s are %d times in the description", list, n)
	}
}
