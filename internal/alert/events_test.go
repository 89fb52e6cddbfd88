package alert_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/schema"
)

// operators is the operator's tenant: it keeps what it is told.
type operators struct {
	mu     sync.Mutex
	tenant id.ID
	err    error
	got    []alert.Event
}

func (o *operators) operator() *alert.Operator {
	return &alert.Operator{
		Tenant: func(context.Context) (id.ID, error) { return o.tenant, nil },
		Accept: func(_ context.Context, tenant id.ID, events []alert.Event) error {
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.err != nil || tenant != o.tenant {
				return o.err
			}
			o.got = append(o.got, events...)
			return nil
		},
	}
}

func (o *operators) types() string {
	var all []string
	for _, ev := range o.got {
		all = append(all, ev.Type)
	}
	o.got = nil
	return strings.Join(all, " ")
}

func TestEveryChangeIsAnEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	to := &operators{tenant: w.addTenant("ours")}
	s := w.senderWith(io.Discard, alert.SenderConfig{}, to.operator())
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { w.raise(w.finding(0, alert.DeliveryFailing, "a")) }, "delivery.failing"},
		{func() { w.raise(w.finding(0, alert.DeliveryFailing, "a")) }, ""},
		{func() { w.raise(w.finding(0, alert.DeliveryFailed, "a")) }, "delivery.failed"},
		{func() { w.raise(w.finding(0, alert.DeliveryFailed, "a")) }, ""},
		{func() { w.resolve(w.endpoints[0]) }, "delivery.recovered"},
		{func() { w.raise(w.finding(0, alert.EndpointUnauthorized, "a")) }, "delivery.failed"},
		{func() { w.raise(w.finding(0, alert.EndpointDisabled, "a")) }, "endpoint.disabled"},
		{func() { w.raise(w.finding(0, alert.EndpointDead, "a")) }, "endpoint.dead"},
		{func() { w.resolve(w.endpoints[0]) }, "endpoint.recovered"},
		// Several at once are not made one: programs are not people.
		{func() { w.raise(w.finding(1, alert.DeliveryFailing, "a")); w.resolve(w.endpoints[1]) }, "delivery.failing delivery.recovered"},
	} {
		step.do()
		w.send(s)
		expect(t, "events", to.types(), step.want)
	}
	w.raise(w.finding(0, alert.DeliveryFailing, "a"))
	w.exec(`UPDATE alerts SET resolved_by = 'ann', state = 'resolved', resolved_at = now() WHERE state <> 'resolved'`)
	w.exec(`INSERT INTO alert_notices (shard, id, alert_id, kind, detail, next_try_at)
		SELECT shard, id + 1, id, 'resolved', '', $1 FROM alerts WHERE resolved_by = 'ann'`, w.now)
	w.send(s)
	expect(t, "what a person closed", to.types(), "delivery.failing")
}

func TestAnEventIsMadeOnceHoweverOftenItIsHandedOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	to := &operators{tenant: w.addTenant("ours"), err: errors.New("the store is away")}
	log := &logged{}
	s := w.senderWith(log, alert.SenderConfig{}, to.operator())
	w.exec(`UPDATE tenants SET uid = 'acme-1' WHERE name = 'acme'`)
	w.raise(w.finding(0, alert.EndpointDead, "It is gone"))
	w.send(s)
	if !strings.Contains(log.String(), "the store is away") {
		t.Errorf("the log: %s", log.String())
	}
	to.err = nil
	w.after(30*time.Second, s)
	w.exec(`UPDATE alert_notices SET sent_at = NULL, sent_to = '{}', next_try_at = $1`, w.now) // as if the process had died in between
	w.send(s)
	if len(to.got) != 2 || to.got[0].UID != to.got[1].UID || string(to.got[0].Payload) != string(to.got[1].Payload) {
		t.Fatalf("%v", to.got)
	}
	var payload struct {
		Type      string         `json:"type"`
		Timestamp time.Time      `json:"timestamp"`
		Data      map[string]any `json:"data"`
	}
	if err := json.Unmarshal(to.got[0].Payload, &payload); err != nil {
		t.Fatal(err)
	}
	d := payload.Data
	if payload.Type != "endpoint.dead" || payload.Timestamp.IsZero() || d["tenant_uid"] != "acme-1" || d["tenant_name"] != "acme" ||
		d["endpoint_url"] != "https://example.com/hook?[redacted]" || d["detail"] != "It is gone" || d["count"] != 1.0 || d["resolved_at"] != nil ||
		!strings.HasPrefix(d["alert_id"].(string), "alr_") || d["endpoint_id"] != to.got[0].GroupKey {
		t.Errorf("%s", to.got[0].Payload)
	}
	if strings.Contains(string(to.got[0].Payload), "hush") {
		t.Errorf("a secret is in %s", to.got[0].Payload)
	}
}

// An event about a delivery that fails is a delivery too: of the operator's own endpoints there are none.
func TestTheOperatorsOwnEndpointsMakeNoEvents(t *testing.T) {
	t.Parallel()
	w, sink := newWorld(t, 1), newSink(t)
	to := &operators{tenant: w.tenant}
	w.raise(w.finding(0, alert.EndpointDead, "a"))
	w.sendDue(w.senderWith(io.Discard, alert.SenderConfig{URLs: []string{sink.shoutrrr()}}, to.operator()), 1)
	expect(t, "events", to.types(), "")
	expect(t, "sent", sink.firstLines(), "opened: endpoint.dead")
}

func TestADigestIsSentOnceByOneOfMany(t *testing.T) {
	t.Parallel()
	w, to, bad, log := newWorld(t, 4), newSink(t), newSink(t), &logged{}
	c := alert.SenderConfig{URLs: []string{to.machine(), bad.shoutrrr(), "pagerduty:///0123456789abcdef0123456789abcdef"}, Digest: "0 9 * * *", Timezone: "Europe/Berlin"}
	var many []*alert.Sender
	for range 3 {
		many = append(many, w.senderWith(log, c, nil))
	}
	digests := func() {
		t.Helper()
		var all sync.WaitGroup
		for _, s := range many {
			all.Go(func() {
				if err := s.SendDigest(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	w.now = time.Date(2026, 11, 30, 7, 0, 0, 0, time.UTC)
	digests() // now it is known when the first one is due: at 8:00 UTC, and of when
	w.now = w.now.Add(time.Hour)
	digests()
	expect(t, "with nothing to say", to.firstLines()+log.messages(t), "alert.digest")
	w.outage()
	w.resolve(w.endpoints[0])
	w.exec(`INSERT INTO service_alerts (id, kind, detail, last_notice_id, opened_at, last_at) VALUES (1, 'service.canary_failed', 'x', 1, $1, $1)`, w.now)
	w.now = w.now.Add(23 * time.Hour)
	digests()
	expect(t, "before its time", to.firstLines(), "")
	w.now = w.now.Add(time.Hour)
	bad.answer(500)
	digests()
	messages := to.messages()
	if len(messages) != 1 || messages[0]["event"] != "digest" || messages[0]["title"] != "Postrider digest: 4 open, 5 opened, 1 resolved" ||
		!strings.Contains(messages[0]["message"], "From 2026-11-30 08:00:00 UTC to 2026-12-01 08:00:00 UTC.") ||
		strings.Count(messages[0]["message"], "\n- 1× acme: https://example.com/hook?[redacted], delivery.failing (") != 4 {
		t.Errorf("%v", messages)
	}
	expect(t, "to the one that fails", bad.firstLines(), "Postrider digest: 4 open, 5 opened, 1 resolved")
	bad.answer(200)
	w.now = w.now.Add(30 * time.Second)
	digests()
	expect(t, "again", to.firstLines()+" / "+bad.firstLines(), " / Postrider digest: 4 open, 5 opened, 1 resolved")
	if got := strings.Split(log.messages(t), "; "); !slices.Equal(got, []string{"alert.digest_failed", "alert.digest"}) {
		t.Errorf("logged %v", got)
	}
}

// docs/operational-events.md shows a payload and its schema: what is sent is as they say, with a field for each of the example's.
func TestEventsAreAsTheirPageSays(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operational-events.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(page), "```json\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	if len(blocks) != 2 {
		t.Fatalf("the page has %d blocks of JSON", len(blocks))
	}
	rule, err := schema.Compile([]byte(blocks[1]))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, 1)
	to := &operators{tenant: w.addTenant("ours")}
	s := w.senderWith(io.Discard, alert.SenderConfig{}, to.operator())
	w.raise(w.finding(0, alert.EndpointBlocked, "a"))
	w.send(s)
	w.resolve(w.endpoints[0])
	w.send(s)
	type payload struct{ Data map[string]any }
	var example payload
	if err := json.Unmarshal([]byte(blocks[0]), &example); err != nil {
		t.Fatal(err)
	}
	for _, text := range append([]string{blocks[0]}, string(to.got[0].Payload), string(to.got[1].Payload)) {
		if err := rule.Check([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		var is payload
		if err := json.Unmarshal([]byte(text), &is); err != nil || len(is.Data) != len(example.Data) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
