package alert_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/alert"
)

// outage has deliveries to all endpoints fail, and over resolves them.
func (w *world) outage() {
	w.Helper()
	var fs []alert.Finding
	for i := range w.endpoints {
		fs = append(fs, w.finding(i, alert.DeliveryFailing, fmt.Sprintf("Endpoint %d fails", i)))
	}
	w.raise(fs...)
}

func (w *world) send(s *alert.Sender) {
	w.Helper()
	if _, err := s.SendDue(w.Context()); err != nil {
		w.Fatal(err)
	}
}

func TestAnOutageIsOneMessageAndSoIsItsEnd(t *testing.T) {
	t.Parallel()
	w, to, log := newWorld(t, 2100), newSink(t), &logged{}
	s := w.sender(log, to.shoutrrr())
	w.outage()
	w.send(s)
	w.now = w.now.Add(time.Minute) // the channel was quiet, so the rest was gathered
	w.send(s)
	got := to.got
	if len(got) != 2 || !strings.HasPrefix(got[0], "Postrider alerts: 2000 endpoints of 1 tenant are in trouble\n- opened delivery.failing: acme: Endpoint 0 fails\n") ||
		!strings.HasSuffix(got[0], "- opened delivery.failing: acme: Endpoint 9 fails\n… and 1990 more.\nhttps://hooks.example.com/console/alerts") {
		t.Errorf("%d messages: %s", len(got), strings.Join(got, "\n\n"))
	}
	if lines := strings.Count(log.messages(t), "alert.opened"); lines != 2100 {
		t.Errorf("%d lines in the log", lines)
	}
	to.firstLines()
	w.now = w.now.Add(time.Minute)
	w.resolve(w.endpoints...)
	w.send(s)
	w.now = w.now.Add(time.Minute)
	w.send(s)
	expect(t, "the end", to.firstLines(), "Postrider alerts: 2000 endpoints of 1 tenant have recovered; Postrider alerts: 100 endpoints of 1 tenant have recovered")
	if left := w.one(`SELECT count(*)::text FROM alert_notices WHERE sent_at IS NULL`); left != "0" {
		t.Errorf("%s are left", left)
	}
}

func TestAFewAreToldOneByOneWithWhatToDoAndALink(t *testing.T) {
	t.Parallel()
	w, to, log := newWorld(t, 5), newSink(t), &logged{}
	w.outage()
	w.sendDue(w.sender(log, to.shoutrrr()), 5)
	if len(to.got) != 5 {
		t.Fatalf("%d messages", len(to.got))
	}
	for _, want := range []string{
		"Postrider alert opened: delivery.failing (acme)\nEndpoint ", " fails\nWhat to do: nothing yet", "\nTenant acme (ten_", "endpoint ep_",
		"(https://example.com/hook?[redacted]), alert alr_", "since 2026-11-30 09:00:00 UTC, counted 1 so far.\nhttps://hooks.example.com/console/alerts/alr_",
	} {
		if !strings.Contains(to.got[0], want) || strings.Contains(to.got[0], "hush") {
			t.Errorf("%q is not in %s", want, to.got[0])
		}
	}
}

// Above the throttle a channel gets one message a minute, and all of it in the end.
func TestAChannelIsThrottled(t *testing.T) {
	t.Parallel()
	w, to, log := newWorld(t, 60), newSink(t), &logged{}
	s := w.sender(log, to.machine())
	for i := range w.endpoints { // one every five seconds, for five minutes
		w.raise(w.finding(i, alert.DeliveryFailing, "x"))
		w.send(s)
		w.now = w.now.Add(5 * time.Second)
	}
	w.now = w.now.Add(time.Minute)
	w.send(s)
	messages := to.messages()
	told := 0
	for i, m := range messages {
		told += len(strings.Split(m["alert_ids"], ","))
		if i < 20 && m["event"] != "opened" {
			t.Errorf("message %d is %v", i, m)
		}
	}
	if len(messages) > 26 || told != 60 {
		t.Errorf("%d messages tell of %d alerts", len(messages), told)
	}
	// Another window, another twenty.
	w.now = w.now.Add(10 * time.Minute)
	w.resolve(w.endpoints[:1]...)
	w.send(s)
	if m := to.messages(); len(m) != 1 || m[0]["event"] != "resolved" {
		t.Errorf("later: %v", m)
	}
}

// An endpoint that comes and goes is told of three times, and then of what lasts.
func TestFlappingIsDamped(t *testing.T) {
	t.Parallel()
	w, to, log := newWorld(t, 1), newSink(t), &logged{}
	s := w.sender(log, to.shoutrrr())
	for range 8 {
		w.raise(w.finding(0, alert.DeliveryFailing, "again"))
		w.send(s)
		w.now = w.now.Add(time.Minute)
		w.resolve(w.endpoints[0])
		w.send(s)
		w.now = w.now.Add(time.Minute)
	}
	all := strings.Join(to.got, "\n")
	expect(t, "told", to.firstLines(), strings.TrimSuffix(strings.Repeat("opened: delivery.failing; resolved: delivery.failing; ", 3), "; "))
	if strings.Count(all, "It comes and goes") < 1 {
		t.Error("nobody is told that it is damped from now on")
	}
	if lines := strings.Count(log.messages(t), "alert."); lines != 16 {
		t.Errorf("%d lines in the log", lines)
	}
	w.raise(w.finding(0, alert.DeliveryFailing, "for good"))
	w.send(s)
	w.now = w.now.Add(9 * time.Minute)
	w.send(s)
	expect(t, "before it has lasted", to.firstLines(), "")
	w.now = w.now.Add(time.Minute)
	w.send(s)
	w.resolve(w.endpoints[0])
	w.send(s)
	expect(t, "when it has lasted", to.firstLines(), "opened: delivery.failing; resolved: delivery.failing")
}

// A channel that is down holds up no other, is tried by itself, and gets all in few messages.
func TestAChannelThatIsDownIsToldLaterInFewMessages(t *testing.T) {
	t.Parallel()
	w, good, bad, log := newWorld(t, 40), newSink(t), newSink(t), &logged{}
	bad.answer(http.StatusServiceUnavailable)
	s := w.sender(log, good.machine(), bad.machine())
	for i := range w.endpoints {
		w.raise(w.finding(i, alert.DeliveryFailing, "x"))
		w.send(s)
		w.now = w.now.Add(30 * time.Second)
	}
	tried := len(bad.messages())
	if ok := len(good.messages()); ok < 30 {
		t.Errorf("the good one got %d messages", ok)
	}
	bad.answer(http.StatusOK)
	for range 4 {
		w.now = w.now.Add(20 * time.Minute)
		w.send(s)
	}
	told := map[string]bool{}
	messages := bad.messages()
	for _, m := range messages {
		for _, alr := range strings.Split(m["alert_ids"], ",") {
			if told[alr] {
				t.Errorf("%s is told twice", alr)
			}
			told[alr] = true
		}
	}
	if len(told) != 40 || len(messages) > 8 || tried > 60 {
		t.Errorf("after %d tries %d messages tell of %d alerts", tried, len(messages), len(told))
	}
	if n := len(good.messages()); n != 0 {
		t.Errorf("the good one got %d again", n)
	}
}

// Operators' programs learn that a failing delivery has failed for good; people were told of it already.
func TestThatAFailingDeliveryFailedIsNoNewsToPeople(t *testing.T) {
	t.Parallel()
	w, to, log := newWorld(t, 1), newSink(t), &logged{}
	s := w.sender(log, to.shoutrrr())
	w.raise(w.finding(0, alert.DeliveryFailing, "failing"))
	w.sendDue(s, 1)
	w.raise(w.finding(0, alert.DeliveryFailed, "failed"))
	w.sendDue(s, 1)
	expect(t, "sent", to.firstLines(), "opened: delivery.failing")
	expect(t, "logged", log.messages(t), "alert.opened; alert.escalated")
}

// A notice that the version before wrote has no kind of its own, and one that it had claimed has no lease.
func TestNoticesOfTheVersionBeforeAreSent(t *testing.T) {
	t.Parallel()
	w, to, log := newWorld(t, 1), newSink(t), &logged{}
	w.raise(w.finding(0, alert.EndpointDead, "gone"))
	w.exec(`UPDATE alert_notices SET about = NULL, attempts = 3`)
	w.sendDue(w.sender(log, to.shoutrrr()), 1)
	expect(t, "sent", to.firstLines(), "opened: endpoint.dead")
}
