package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/pgtest"
)

// A server has one node number while it runs, and a command that makes a key has one while it does; those that make
// nothing take none.
func TestNodeNumbersAreTakenAndGivenBack(t *testing.T) {
	t.Parallel()
	env := serverEnv(t)
	count := func(condition string) (n int) {
		t.Helper()
		if err := pgtest.Pool(t).QueryRow(t.Context(), `SELECT count(*) FROM nodes WHERE `+condition).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	key := strings.TrimSpace(must(t, env, "keys", "create", "a", "--scopes", "admin"))
	if used, held := count("leased_until IS NOT NULL"), count("owner IS NOT NULL"); used != 1 || held != 0 {
		t.Errorf("making %s used %d and holds %d", key[:4], used, held)
	}
	id := strings.Fields(lineWith(t, must(t, env, "keys", "list"), " a "))[0]
	if used := count("leased_until IS NOT NULL"); used != 1 {
		t.Errorf("listing used %d", used-1)
	}
	must(t, env, "keys", "revoke", id)
	if held := count("owner IS NOT NULL"); held != 0 {
		t.Errorf("after revoking, which is told in the audit log, %d are held", held)
	}
	server := goCLI(t, env, "serve", "--roles", "api")
	clientEnv(t, server)
	if held := count("owner IS NOT NULL"); held != 1 {
		t.Errorf("a server holds %d", held)
	}
	server.stop(t)
	if held := count("owner IS NOT NULL"); held != 0 {
		t.Errorf("after its stop it holds %d", held)
	}
}

// The time for an answer runs from the request's headers on, so it begins with the time that the body may take.
func TestAnAnswerHasTimeAfterItsRequest(t *testing.T) {
	t.Parallel()
	s := newServer(nil, http.NotFoundHandler(), zerolog.Nop()).http
	if s.WriteTimeout <= s.ReadTimeout || s.ReadTimeout <= 0 {
		t.Errorf("reading may take %v, and all until the answer %v", s.ReadTimeout, s.WriteTimeout)
	}
}
