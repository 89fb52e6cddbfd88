package dispatcher

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
)

func (w *world) exec(sql string) {
	w.Helper()
	if _, err := w.db.Exec(w.Context(), sql); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
}

// again has deliveries go again, and gives how many do.
func (w *world) again(queue func(*pgx.Batch, Many, time.Time, func(int)), states []State, deliveries ...id.ID) (n int) {
	w.Helper()
	b := &pgx.Batch{}
	m := Many{Shard: deliveries[0].Shard, States: states}
	for _, d := range deliveries {
		m.IDs = append(m.IDs, d.N)
	}
	queue(b, m, w.clock(), func(done int) { n += done })
	if err := w.db.SendBatch(w.Context(), b).Close(); err != nil {
		w.Fatal(err)
	}
	return n
}

// A replay says on the wire, and afterwards, that it is one. Whether it arrives or not, its endpoint's count of failures stays
// as it is, and however long all has failed it is not switched off. An attempt of a new event counts as ever.
func TestReplaysSayNothingAboutTheirEndpoint(t *testing.T) {
	t.Parallel()
	status, marks := http.StatusInternalServerError, []string(nil)
	w := newWorld(t, func(r *http.Request) (*http.Response, error) {
		mark := signer.HeaderReplay // spelt as it is sent
		marks = append(marks, strings.Join(r.Header[mark], ","))
		return reply(status, nil, "")
	})
	w.d.cfg.DisableAfter = time.Hour
	ep := w.endpoint()
	dlv := w.enqueue(ep, "{}")
	w.round(w.d)
	failures := func(want int) {
		t.Helper()
		if n := w.count(`SELECT consecutive_failures FROM endpoints WHERE status = 'enabled'`); n != want {
			t.Errorf("%d failures, want %d", n, want)
		}
	}
	failures(1)
	w.exec(`WITH gone AS (DELETE FROM deliveries RETURNING *)
		INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts, reason, last_outcome, finished_at)
		SELECT shard, id, tenant_id, event_id, endpoint_id, 'failed', attempts, 'exhausted', 'retryable', next_retry_at FROM gone`)
	w.advance(2 * time.Hour)
	if n := w.again(QueueReplays, []State{StateSucceeded}, dlv); n != 0 {
		t.Errorf("%d that failed go again as successes", n)
	}
	if n := w.again(QueueReplays, []State{StateFailed}, dlv); n != 1 {
		t.Errorf("%d go again", n)
	}
	w.round(w.d)
	failures(1)
	status = http.StatusOK
	w.advance(time.Hour)
	w.round(w.d)
	failures(1)
	if got := w.get(dlv); got.State != StateSucceeded || got.Attempts != 3 {
		t.Errorf("got %+v", got)
	}
	w.enqueue(ep, "{}")
	w.round(w.d)
	failures(0)
	if want := []string{"", "true", "true", ""}; !slices.Equal(marks, want) {
		t.Errorf("on the wire: %q", marks)
	}
	var shown []bool
	for _, a := range w.attempts(dlv) {
		shown = append(shown, slices.Contains(a.RequestHeaders, signer.Header{Name: signer.HeaderReplay, Value: "true"}))
	}
	if want := []bool{true, true, false}; !slices.Equal(shown, want) {
		t.Errorf("shown: %v", shown)
	}
}

// What comes back in masses waits with the retries, all of it goes out, and a retry by hand takes one of them to the front.
func TestManyRetriesGoBehindWhatIsNew(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	sent := map[string]int{}
	w := newWorld(t, func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		sent[posted(r)]++
		return reply(http.StatusOK, nil, "")
	})
	ep := w.endpoint()
	var many []id.ID
	for range 50 {
		many = append(many, w.enqueue(ep, "{}"))
	}
	for w.round(w.d) > 0 {
		w.advance(time.Second)
	}
	if n := w.again(QueueRetries, []State{StateSucceeded}, many...); n != 50 {
		t.Fatalf("%d come back", n)
	}
	if _, err := w.d.deps.Desk.Retry(t.Context(), many[7]); err != nil {
		t.Fatal(err)
	}
	if first := w.count(`SELECT count(*) FROM deliveries WHERE lane = 0`); first != 1 || w.count(`SELECT count(*) FROM deliveries WHERE lane = 1`) != 49 {
		t.Errorf("%d go first", first)
	}
	for w.round(w.d) > 0 {
		w.advance(time.Second)
	}
	for _, d := range many {
		if n := sent[id.Delivery.Format(d)]; n != 2 {
			t.Errorf("%s was sent %d times", id.Delivery.Format(d), n)
		}
	}
}

func TestManyCancellations(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ep := w.endpoint()
	one, two, flying := w.enqueue(ep, "{}"), w.enqueue(ep, "{}"), w.enqueue(ep, "{}")
	w.exec(`UPDATE deliveries SET state = 'in_flight', attempts = 1, lease_owner = 1, leased_until = next_retry_at WHERE id = ` + strconv.FormatInt(flying.N, 10))
	cancel := func(b *pgx.Batch, m Many, now time.Time, done func(int)) {
		QueueCancels(b, m, ReasonCancelledByUser, now, done)
	}
	if n := w.again(cancel, []State{Held}, one, two, flying); n != 0 {
		t.Errorf("%d were held", n)
	}
	if n := w.again(cancel, []State{Pending, Held}, one, two, flying); n != 2 {
		t.Errorf("%d were cancelled", n)
	}
	if got := w.get(one); got.State != StateCancelled || got.Reason != ReasonCancelledByUser {
		t.Errorf("got %+v", got)
	}
	if got := w.get(flying); got.State != InFlight {
		t.Errorf("got %+v", got)
	}
}
