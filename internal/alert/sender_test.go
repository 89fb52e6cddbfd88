package alert_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/alert"
)

// sink is a channel's far end: it keeps what it is sent, and answers with status.
type sink struct {
	*httptest.Server
	mu     sync.Mutex
	got    []string
	status int
}

func newSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{status: http.StatusOK}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got = append(s.got, string(body))
		w.WriteHeader(s.status)
	}))
	t.Cleanup(s.Close)
	return s
}

// machine is the sink's URL with messages for programs.
func (s *sink) machine() string { return s.shoutrrr() + "?template=json" }

// messages are what came since the last call, for programs.
func (s *sink) messages() []map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]map[string]string, len(s.got))
	for i, m := range s.got {
		if err := json.Unmarshal([]byte(m), &out[i]); err != nil {
			out[i] = map[string]string{"message": m, "event": err.Error()}
		}
	}
	s.got = nil
	return out
}

// shoutrrr is the sink's service URL, with a token in its path.
func (s *sink) shoutrrr() string { return "generic+" + s.URL + "/hooks/canary-token" }

func (s *sink) answer(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// firstLines are those of what came since the last call.
func (s *sink) firstLines() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, m := range s.got {
		first, _, _ := strings.Cut(m, "\n")
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(first, "Postrider alert "), " (acme)"))
	}
	s.got = nil
	return strings.Join(out, "; ")
}

type logged struct {
	bytes.Buffer
	mu sync.Mutex
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

// messages are the log's messages since the last call.
func (l *logged) messages(t *testing.T) string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for line := range strings.Lines(l.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		out = append(out, fields["message"].(string))
	}
	l.Reset()
	return strings.Join(out, "; ")
}

func (w *world) sender(log io.Writer, urls ...string) *alert.Sender {
	w.Helper()
	return w.senderWith(log, alert.SenderConfig{URLs: urls}, nil)
}

func (w *world) senderWith(log io.Writer, c alert.SenderConfig, operator *alert.Operator) *alert.Sender {
	w.Helper()
	c.PublicURL = "https://hooks.example.com"
	s, err := alert.NewSender(c, alert.SenderDeps{
		DB: w.db, Now: func() time.Time { return w.now }, Log: zerolog.New(log), Operator: operator,
	})
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) sendDue(s *alert.Sender, want int) {
	w.Helper()
	if got, err := s.SendDue(w.Context()); got != want || err != nil {
		w.Errorf("SendDue = %d, %v; want %d", got, err, want)
	}
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func TestNoticesAreSentAndLoggedOnceInTheirOrder(t *testing.T) {
	t.Parallel()
	w, to, log := newWorld(t, 1), newSink(t), &logged{}
	s := w.sender(log, to.shoutrrr())
	w.sendDue(s, 0)
	w.raise(w.finding(0, alert.DeliveryFailing, "Endpoint A fails"))
	w.sendDue(s, 1)
	w.raise(w.finding(0, alert.EndpointDead, "Endpoint A is gone"))
	w.sendDue(s, 1)
	w.now = w.now.Add(90 * time.Minute)
	w.resolve(w.endpoints[0])
	w.sendDue(s, 1)
	w.now = w.now.Add(24 * time.Hour)
	w.sendDue(s, 0)
	if last := to.got[len(to.got)-1]; !strings.Contains(last, "It was: Endpoint A is gone") || !strings.Contains(last, "counted 2 in 1h30m") {
		t.Errorf("the resolution reads: %s", last)
	}
	expect(t, "sent", to.firstLines(), "opened: delivery.failing; escalated: endpoint.dead; resolved: endpoint.dead")
	for _, part := range []string{`"alert":"alr_`, `"tenant":"ten_`, `"endpoint":"ep_`, `"kind":"endpoint.dead"`, `"detail":"Endpoint A fails"`} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log lacks %s: %s", part, log.String())
		}
	}
	expect(t, "logged", log.messages(t), "alert.opened; alert.escalated; alert.resolved")
}

func TestWithoutChannelsNoticesAreLogged(t *testing.T) {
	t.Parallel()
	w, log := newWorld(t, 3), &logged{}
	s := w.sender(log)
	w.raise(w.finding(0, alert.DeliveryFailed, "a"), w.finding(1, alert.DeliveryFailed, "b"))
	w.sendDue(s, 2)
	w.sendDue(s, 0)
	expect(t, "logged", log.messages(t), "alert.opened; alert.opened")
}

func TestAFailedChannelIsTriedAgainAloneAndLaterNoticesWait(t *testing.T) {
	t.Parallel()
	w, good, bad, log := newWorld(t, 1), newSink(t), newSink(t), &logged{}
	bad.answer(http.StatusInternalServerError)
	s := w.sender(log, good.shoutrrr(), bad.shoutrrr())
	w.raise(w.finding(0, alert.DeliveryFailed, "a"))
	w.sendDue(s, 0)
	w.resolve(w.endpoints[0])
	w.now = w.now.Add(29 * time.Second)
	w.sendDue(s, 0) // not due there yet, and the resolution waits behind it; the other one is told
	expect(t, "to the good one", good.firstLines(), "opened: delivery.failed; resolved: delivery.failed")
	expect(t, "to the bad one", bad.firstLines(), "opened: delivery.failed")
	told := log.String() + w.one(`SELECT string_agg(last_error, '') FROM alert_notices`)
	if !strings.Contains(told, "500") || strings.Contains(told, "canary") || strings.Contains(told, "http://") {
		t.Errorf("the error lacks the status or tells the URL: %s", told)
	}
	expect(t, "logged", log.messages(t), "alert.opened; alert.notice_failed; alert.resolved")

	bad.answer(http.StatusOK)
	w.now = w.now.Add(time.Second)
	w.sendDue(s, 2)
	expect(t, "to the good one", good.firstLines(), "")
	expect(t, "to the bad one, which hears of both at once", bad.firstLines(), "opened and resolved: delivery.failed")
	expect(t, "logged", log.messages(t), "")
}

func TestANoticeIsGivenUpInTheEndAndHoldsNothingBack(t *testing.T) {
	t.Parallel()
	w, to, log := newWorld(t, 1), newSink(t), &logged{}
	to.answer(http.StatusForbidden)
	s := w.sender(log, to.shoutrrr())
	w.raise(w.finding(0, alert.DeliveryFailed, "a"))
	for range 30 {
		w.sendDue(s, 0)
		w.now = w.now.Add(time.Hour)
	}
	tries := strings.Count(to.firstLines(), "opened")
	if got := log.messages(t); tries != 20 || !strings.HasSuffix(got, "alert.notice_given_up") || strings.Count(got, "alert.opened") != 1 {
		t.Errorf("tried %d times, logged %s", tries, got)
	}
	if left := w.one(`SELECT count(*)::text FROM alert_notices WHERE sent_at IS NULL AND given_up_at IS NULL`); left != "0" {
		t.Errorf("%s are still looked through", left)
	}
	to.answer(http.StatusOK)
	w.resolve(w.endpoints[0])
	w.sendDue(s, 1)
	expect(t, "sent", to.firstLines(), "resolved: delivery.failed")
}

func TestSendersSideBySideSendEachNoticeOnce(t *testing.T) {
	t.Parallel()
	w, to, log := newWorld(t, 100), newSink(t), &logged{}
	told := map[string]int{}
	var fs []alert.Finding
	for i := range w.endpoints {
		fs = append(fs, w.finding(i, alert.DeliveryFailed, "a"))
	}
	w.raise(fs...)
	var all sync.WaitGroup
	for range 3 {
		s := w.sender(log, to.machine())
		all.Go(func() {
			if _, err := s.SendDue(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for w.one(`SELECT count(*)::text FROM alert_notices WHERE sent_at IS NULL`) != "0" { // the channel was quiet
		w.now = w.now.Add(time.Minute)
		if _, err := w.sender(log, to.machine()).SendDue(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, message := range to.messages() {
		for _, alr := range strings.Split(message["alert_ids"], ",") {
			told[alr]++
		}
	}
	for alr, times := range told {
		if times != 1 {
			t.Errorf("%s is told %d times", alr, times)
		}
	}
	if len(told) != 100 {
		t.Errorf("%d alerts of 100 are told", len(told))
	}
	if lines := strings.Count(log.messages(t), "alert.opened"); lines != 100 {
		t.Errorf("logged %d lines for 100 notices", lines)
	}
}

// A process that dies between claiming and sending leaves a claim that ends by itself.
func TestAClaimEnds(t *testing.T) {
	t.Parallel()
	w, to, log := newWorld(t, 1), newSink(t), &logged{}
	w.raise(w.finding(0, alert.DeliveryFailed, "a"))
	w.exec(`UPDATE alert_notices SET attempts = 1, leased_until = $1, next_try_at = $1`, w.now.Add(2*time.Minute)) // as a claim does
	w.raise(w.finding(0, alert.EndpointDead, "b"))
	s := w.sender(log, to.shoutrrr())
	w.sendDue(s, 0) // what comes later waits for it
	w.now = w.now.Add(2 * time.Minute)
	w.sendDue(s, 2)
	expect(t, "sent", to.firstLines(), "opened: endpoint.dead")
}

// A message on its way at a stop is given a moment, and what has no answer by then is for whoever comes next, without its being
// counted as a failure.
func TestAStopWaitsForMessagesAMomentAndLosesNone(t *testing.T) {
	t.Parallel()
	w, good, log := newWorld(t, 1), newSink(t), &logged{}
	hanging, arrived := make(chan struct{}), make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-hanging
	}))
	defer server.Close()
	defer close(hanging)
	w.raise(w.finding(0, alert.DeliveryFailed, "a"))
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() {
		_, err := w.sender(log, good.shoutrrr(), "generic+"+server.URL).SendDue(ctx)
		stopped <- err
	}()
	<-arrived
	stop()
	if err := <-stopped; err == nil {
		t.Error("SendDue does not say that it was stopped")
	}
	expect(t, "logged", log.messages(t), "alert.opened")
	to := newSink(t)
	w.sendDue(w.sender(log, good.shoutrrr(), to.shoutrrr()), 1)
	expect(t, "sent", good.firstLines()+" / "+to.firstLines(), "opened: delivery.failed / opened: delivery.failed")
}

func TestBadURLsAreRefusedWithoutBeingRepeated(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "canary", "nonsense://canary@x", "http://canary.example.com", "slack://canary%zz"} {
		urls := []string{"logger://", url}
		_, err := alert.NewSender(alert.SenderConfig{URLs: urls}, alert.SenderDeps{})
		for _, err := range []error{err, alert.CheckURLs(urls)} {
			if err == nil || !strings.Contains(err.Error(), "item 2") || strings.Contains(err.Error(), "canary") {
				t.Errorf("%q: %v", url, err)
			}
		}
	}
	if err := alert.CheckURLs([]string{"logger://", "slack://token-a/token-b/token-c"}); err != nil {
		t.Error(err)
	}
}

// Whatever else lies in the table, looking for work is one small statement that reads the index of what is unsent.
func TestIdleLookIsThroughTheIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.raise(w.finding(0, alert.DeliveryFailed, "a"))
	w.exec(`INSERT INTO alert_notices (shard, id, alert_id, kind, detail, next_try_at, sent_at)
		SELECT shard, id + g, id, 'resolved', '', $1, $1 FROM alerts, generate_series(1, 20000) g`, w.now)
	w.exec(`INSERT INTO alert_notices (shard, id, alert_id, kind, detail, attempts, next_try_at, given_up_at)
		SELECT shard, id + 20000 + g, id, 'resolved', '', 20, $1, $1 FROM alerts, generate_series(1, 20000) g`, w.now)
	w.exec(`ANALYZE alert_notices`)
	rows, err := w.db.Query(t.Context(), `EXPLAIN `+alert.DueBucketsSQL, pgx.StrictNamedArgs{"now": w.now})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || !strings.Contains(strings.Join(plan, "\n"), "alert_notices_unsent") {
		t.Errorf("%v\n%s", err, strings.Join(plan, "\n"))
	}
}
