package api_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestSchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	const path = "/v1/tenants/acme/schedules"
	made := w.must(http.StatusCreated, request{method: "POST", path: path, body: `{"uid":"daily","cron":"30 9 * * 1-5","timezone":"Europe/Berlin",
		"type":"report.due","payload":{"a" : 1.50,"b":"<&>"},"group_key":"g","metadata":{"big":12345678901234567890}}`})
	if made.text("status") != "active" || made.text("late") != "all" || made.text("next_at") == "" || made.text("content_type") != "application/json" {
		t.Errorf("made is %v", made)
	}
	var payload []byte
	if err := w.db.QueryRow(t.Context(), `SELECT payload FROM schedules`).Scan(&payload); err != nil || string(payload) != `{"a" : 1.50,"b":"<&>"}` {
		t.Errorf("kept is %q (%v)", payload, err)
	}
	patch := func(body string) tree {
		t.Helper()
		return w.must(http.StatusOK, request{method: "PATCH", path: path + "/daily", body: body})
	}
	if got := patch(`{"paused":true,"group_key":null}`); got.text("status") != "paused" || got["next_at"] != nil || got["group_key"] != nil {
		t.Errorf("paused it is %v", got)
	}
	if got := patch(`{"payload":null}`); got["payload"] != nil {
		t.Errorf("with null for a payload it is %v", got)
	}
	receipt := w.must(http.StatusAccepted, request{method: "POST", path: path + "/daily/run"})
	got := w.must(http.StatusOK, request{method: "GET", path: path + "/daily"})
	if got.text("last_event_id") != receipt.text("id") || len(got.list("occurrences")) != 1 {
		t.Errorf("after a run by hand it is %v", got)
	}
	event := w.must(http.StatusOK, request{method: "GET", path: "/v1/tenants/acme/events/" + receipt.text("id")})
	about, _ := event["metadata"].(map[string]any)
	if of, _ := about["schedule"].(map[string]any); of["id"] != got.text("id") {
		t.Errorf("the event says of itself %v", about)
	}
	list := w.must(http.StatusOK, request{method: "GET", path: path}).list("data")
	if _, has := list[0]["payload"]; len(list) != 1 || has {
		t.Errorf("the list is %v", list)
	}
}

func TestSchedulesThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	for _, c := range []struct{ body, pointer, words string }{
		{`{"cron":"61 * * * *","type":"a","payload":1}`, "/cron", "the minute"},
		{`{"cron":"0 0 30 2 *","type":"a","payload":1}`, "/cron", "never"},
		{`{"cron":"@daily","timezone":"Mars","type":"a","payload":1}`, "/timezone", "Mars"},
		{`{"cron":"@daily","type":"a b","payload":1}`, "/type", "letters"},
		{`{"cron":"@daily","type":"a","payload":1,"late":"some"}`, "/late", "none of"},
		{`{"cron":"@daily","type":"a","payload":1,"uid":""}`, "/uid", "empty"},
		{`{"cron":"@daily","type":"a"}`, "/payload", "required"},
		{`{"type":"a","payload":1}`, "/cron", "required"},
		{`{"cron":"@daily","type":"a","payload":1,"metadata":{"cloudevents":{"time":"x"}}}`, "/metadata/cloudevents/time", "no time"},
		{`{"cron":"@daily","type":"a","payload":1,"endpoint_ids":["x"]}`, "/endpoint_ids/0", "no such endpoint"},
	} {
		p := w.refused(http.StatusUnprocessableEntity, request{method: "POST", path: "/v1/tenants/acme/schedules", body: c.body})
		if !p.pointsTo(c.pointer) || !strings.Contains(string(w.do(request{method: "POST", path: "/v1/tenants/acme/schedules", body: c.body}).body), c.words) {
			t.Errorf("%s: %+v", c.body, p)
		}
	}
	body := `{"cron":"@daily","type":"a","payload":1,"uid":"one"}`
	w.must(http.StatusCreated, request{method: "POST", path: "/v1/tenants/acme/schedules", body: body})
	w.refused(http.StatusConflict, request{method: "POST", path: "/v1/tenants/acme/schedules", body: body})
	p := w.refused(http.StatusUnprocessableEntity, request{
		method: "PATCH", path: "/v1/tenants/acme/schedules/one", body: `{"metadata":{"cloudevents":1}}`,
	})
	if !p.pointsTo("/metadata/cloudevents") {
		t.Errorf("a change to what can be no attributes: %+v", p)
	}
}
