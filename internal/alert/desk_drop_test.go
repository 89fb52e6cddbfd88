package alert_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/alert"
)

// Three alerts of one bucket: one resolved and told of, one open whose notice was given up, one open whose notice waits.
func TestOldNoticesAndAlertsAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	desk := alert.NewDesk(w.db, w.ids.Next, func() time.Time { return w.now })
	drop := func(after time.Duration, want int64, left string) {
		t.Helper()
		w.now = start.Add(after)
		if got, err := desk.DropOld(t.Context(), w.tenant.Shard); got != want || err != nil {
			t.Errorf("after %v: %d, %v; want %d", after, got, err, want)
		}
		expect(t, "left", w.one(`SELECT format('%s alerts, %s notices', (SELECT count(*) FROM alerts), (SELECT count(*) FROM alert_notices))`), left)
	}
	for i := range w.endpoints {
		w.raise(w.finding(i, alert.DeliveryFailed, "a"))
	}
	w.resolve(w.endpoints[0])
	w.exec(`UPDATE alert_notices SET sent_at = $1 WHERE alert_id = (SELECT id FROM alerts WHERE endpoint_id = $2) AND kind = 'opened'`,
		w.now, w.endpoints[0])
	w.exec(`UPDATE alert_notices SET given_up_at = $1 WHERE alert_id = (SELECT id FROM alerts WHERE endpoint_id = $2)`,
		w.now, w.endpoints[1])
	const day = 24 * time.Hour
	drop(30*day, 0, "3 alerts, 4 notices")
	drop(30*day+time.Second, 2, "3 alerts, 2 notices")
	drop(90*day, 0, "3 alerts, 2 notices")
	drop(90*day+time.Second, 1, "2 alerts, 1 notices") // and with it its other notice, whatever became of that
	drop(1000*day, 0, "2 alerts, 1 notices")
}
