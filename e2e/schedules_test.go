package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/pgtest"
)

// Two processes make the events that were due over a long stop, and both are killed in the middle, again and again: every
// occurrence makes one event.
func TestSchedulesOverKills(t *testing.T) {
	t.Parallel()
	const schedules, minutes = 4, 60 * 60
	p := startAs(t, "api", nil)
	tenant := p.tenant()
	for n := range schedules {
		p.want(http.StatusCreated, http.MethodPost, "/v1/tenants/"+tenant+"/schedules", object{
			"cron": "* * * * *", "timezone": "Europe/Berlin", "type": "a", "payload": object{"n": n},
		})
	}
	p.kill()
	db := pgtest.Pool(t)
	var from time.Time // the stop
	err := db.QueryRow(t.Context(), `UPDATE postrider.schedules
		SET next_at = date_trunc('minute', now()) - interval '1 minute' * $1 RETURNING next_at`, minutes).Scan(&from)
	if err != nil {
		t.Fatal(err)
	}
	made := func() (events, occurrences int) {
		t.Helper()
		err := db.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT metadata -> 'schedule') FROM postrider.events`).Scan(&events, &occurrences)
		if err != nil {
			t.Fatal(err)
		}
		return events, occurrences
	}
	for share := range 3 {
		one, two := startAs(t, "scheduler", nil), startAs(t, "scheduler", nil)
		t.Cleanup(one.kill)
		t.Cleanup(two.kill)
		eventually(t, func() string {
			if events, _ := made(); events < schedules*minutes*(share+1)/6 {
				return fmt.Sprintf("%d events are made", events)
			}
			return ""
		})
		one.kill()
		two.kill()
	}
	last := startAs(t, "scheduler", nil)
	t.Cleanup(last.kill)
	eventually(t, func() string {
		var due time.Time
		if err := db.QueryRow(t.Context(), `SELECT min(next_at) FROM postrider.schedules`).Scan(&due); err != nil {
			t.Fatal(err)
		}
		if !due.After(time.Now()) {
			return "due is " + due.String()
		}
		return ""
	})
	last.kill()
	var want int
	err = db.QueryRow(t.Context(), `SELECT sum(extract(epoch FROM next_at - $1) / 60)::integer FROM postrider.schedules`, from).Scan(&want)
	if err != nil {
		t.Fatal(err)
	}
	if events, occurrences := made(); events != want || occurrences != want || want < schedules*minutes {
		t.Errorf("%d events of %d occurrences, wanted are %d of each", events, occurrences, want)
	}
}
