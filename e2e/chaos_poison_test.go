//go:build chaos

package e2e

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Two events are poison: one whose requests cost the process its life each time, and one that the database does not give
// away. Each is parked with its reason after counted tries, and all others arrive.
func TestChaosPoison(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t, "an event that kills its process, one that cannot be read", settings{"DELIVERY_MAX_IN_FLIGHT": "64"})
	s.settle(s.startAs("api,scheduler", nil))
	s.change(damage)
	p := s.startAs("dispatcher", nil)
	deadly := make(chan bool, 100)
	s.answers(func(_ int, r request) string {
		if string(r.body) == "deadly" {
			deadly <- true
			return ""
		}
		return answer(http.StatusOK)
	})
	for _, payload := range []string{"deadly", "unreadable"} {
		if !s.enqueue(payload) {
			t.Fatal("not accepted")
		}
	}
	s.produce(4, load(2000))
	killed := 0
	for settled := false; !settled; {
		select {
		case <-deadly:
			p.kill()
			killed++
			p = s.startAs("dispatcher", nil)
		case err := <-p.done:
			t.Fatalf("the process ended by itself: %v\n%s", err, p.logged())
		case <-time.After(200 * time.Millisecond):
			settled = s.count() == load(2000)+2 && s.unfinished() == 0
		}
	}
	s.change(repair)
	t.Logf("the process was killed %d times", killed)
	s.verdict(killed*64, "deadly failed poisoned", "unreadable failed poisoned")
}

// damage makes whoever reads that one event fail, as on a damaged page of the table.
const damage = `
SET search_path = postrider;
CREATE FUNCTION sound(payload bytea) RETURNS boolean STABLE LANGUAGE plpgsql AS $$ BEGIN
    IF payload = 'unreadable' THEN
        RAISE EXCEPTION 'missing chunk number 0 for toast value 16412' USING ERRCODE = 'data_corrupted';
    END IF;
    RETURN true;
END $$;
CREATE POLICY reading ON events FOR SELECT USING (sound(payload));
CREATE POLICY writing ON events FOR INSERT WITH CHECK (true);
ALTER TABLE events ENABLE ROW LEVEL SECURITY;
ALTER TABLE events FORCE ROW LEVEL SECURITY`

const repair = `ALTER TABLE postrider.events DISABLE ROW LEVEL SECURITY`

func (s *siege) change(sql string) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.database)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(s.t.Context()))
	if _, err := conn.Exec(s.t.Context(), sql); err != nil {
		s.t.Fatal(err)
	}
}
