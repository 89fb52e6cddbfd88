package main

import (
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pgtest"
)

// However often an event is handed over, and whatever has become of what it tells of, it is one. What is wrong with another one is told.
func TestAnOperationalEventIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.Pool(t)
	ids := id.NewGenerator(1, time.Now)
	tenant := ids.NewTenant()
	if _, err := db.Exec(t.Context(), `INSERT INTO tenants (shard, id, name, created_at, updated_at) VALUES ($1, $2, 'ours', now(), now())`,
		tenant.Shard, tenant.N); err != nil {
		t.Fatal(err)
	}
	i := intake.New(intake.Deps{DB: db, IDs: ids, Now: time.Now})
	t.Cleanup(func() { _ = i.Close(t.Context()) })
	ev := func(uid, payload string) alert.Event {
		return alert.Event{Type: "endpoint.dead", UID: uid, GroupKey: "ep_1", Payload: []byte(payload)}
	}
	for _, batch := range [][]alert.Event{
		{ev("notice_1", `{"count":1}`)},
		{ev("notice_1", `{"count":1}`), ev("notice_2", `{}`)},
		{ev("notice_1", `{"count":2}`), ev("notice_2", `{}`), ev("notice_3", `{}`)},
	} {
		if err := acceptOnce(t.Context(), i, tenant, batch); err != nil {
			t.Error(err)
		}
	}
	var events int
	if err := db.QueryRow(t.Context(), `SELECT count(*) FROM events WHERE group_key = 'ep_1'`).Scan(&events); err != nil || events != 3 {
		t.Errorf("%d events, %v", events, err)
	}
	bad := ev("notice_4", `{}`)
	bad.Type = "no type"
	if err := acceptOnce(t.Context(), i, tenant, []alert.Event{ev("notice_1", `{"count":3}`), bad}); err == nil || !strings.Contains(err.Error(), "type") {
		t.Errorf("a bad event: %v", err)
	}
}
