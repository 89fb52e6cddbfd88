package api_test

import (
	"net/http"
	"testing"
)

// The connection breaks off in the middle of a read, in the gate and in a handler. Whoever asks does not notice.
func TestAReadWhoseConnectionBreaks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant("acme")
	exec := func(sql string) {
		t.Helper()
		if _, err := w.db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, sql := range []string{
		`CREATE SEQUENCE broken`,
		`CREATE FUNCTION break_once() RETURNS boolean LANGUAGE plpgsql AS
		 'BEGIN IF nextval(''broken'') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN true; END'`,
		`ALTER TABLE tenants RENAME TO kept`,
		`CREATE VIEW tenants AS SELECT * FROM kept WHERE break_once()`,
	} {
		exec(sql)
	}
	for _, path := range []string{"/v1/tenants", "/v1/tenants/" + tenant} {
		exec(`ALTER SEQUENCE broken RESTART`)
		w.must(http.StatusOK, request{method: "GET", path: path})
	}
}
