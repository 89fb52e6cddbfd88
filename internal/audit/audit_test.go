package audit_test

import (
	"context"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// What is written is read, whatever is in it.
func TestWriteAndRead(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	now := noon
	ids := id.NewGenerator(1, func() time.Time { return now })
	log := audit.NewLog(pool)
	tenant := ids.NewTenant()
	endpoint := audit.Thing{Kind: id.Endpoint, ID: ids.In(tenant.Shard)}
	key := audit.Thing{Kind: id.Key, ID: id.ID{N: ids.Next()}}
	byKey := audit.Actor{Kind: audit.ByKey, Key: id.ID{N: 7}, Name: "shop", From: netip.MustParseAddr("2001:db8::1%eth0")}
	for _, step := range []struct {
		by    audit.Actor
		entry audit.Entry
		want  string
	}{
		{byKey, audit.Entry{Action: audit.EndpointUpdated, Object: endpoint, Tenant: &tenant, Details: audit.Details{"a": "x\x00\xff"}}, `{"a":"x\u0000\ufffd"}`},
		{audit.CLI("root\x00\xff"), audit.Entry{Action: audit.KeyCreated, Object: key, Tenant: &tenant}, `{}`},
		{audit.System("dispatcher"), audit.Entry{Action: audit.KeyRevoked, Object: key, Details: audit.Details{"f": func() {}}}, `{"details":"cannot be shown"}`},
	} {
		now = now.Add(time.Second)
		if err := audit.Write(audit.With(t.Context(), step.by), pool, ids.Next, step.entry); err != nil {
			t.Fatal(err)
		}
		list, err := log.List(t.Context(), audit.Filter{}, 1, id.ID{})
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		got, by := list[0], step.by
		by.From = by.From.WithZone("")
		if by.Kind == audit.ByCLI {
			by.Name = "root\uFFFD\uFFFD"
		}
		if got.Action != step.entry.Action || got.Object != step.entry.Object || !reflect.DeepEqual(got.Tenant, step.entry.Tenant) ||
			got.Actor != by || !got.At.Equal(now) || string(got.Details) != step.want {
			t.Errorf("got %+v %s, want %+v by %+v", got, got.Details, step.entry, by)
		}
	}
	if err := audit.Write(t.Context(), pool, ids.Next); err != nil {
		t.Errorf("no entries: %v", err)
	}
}

// Each kind of actor can be asked for, as a name can.
func TestEntriesOfAKindOfActor(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	ids := id.NewGenerator(1, func() time.Time { return noon })
	kinds := []audit.ActorKind{audit.ByKey, audit.ByUser, audit.ByPortal, audit.ByCLI, audit.BySystem}
	for _, kind := range kinds {
		by := audit.With(t.Context(), audit.Actor{Kind: kind, Name: "one"})
		if kind == audit.ByKey {
			by = audit.With(t.Context(), audit.Actor{Kind: kind, Name: "one", Key: id.ID{N: 7}})
		}
		if err := audit.Write(by, pool, ids.Next, audit.Entry{Action: audit.KeyCreated, Object: audit.Thing{Kind: id.Key, ID: id.ID{N: ids.Next()}}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range kinds {
		found, err := audit.NewLog(pool).List(t.Context(), audit.Filter{Actor: string(kind)}, 10, id.ID{})
		if err != nil || len(found) != 1 || found[0].Actor.Kind != kind {
			t.Errorf("%s: %+v, %v", kind, found, err)
		}
	}
}

func TestWhoActsWhereNobodyDoes(t *testing.T) {
	t.Parallel()
	if by := audit.ActorOf(context.Background()); by != audit.System("postrider") {
		t.Errorf("it is %+v", by)
	}
}

func TestDropOld(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	now := noon
	ids := id.NewGenerator(1, func() time.Time { return now })
	log := audit.NewLog(pool)
	entry := audit.Entry{Action: audit.KeyCreated, Object: audit.Thing{Kind: id.Key, ID: id.ID{N: 1}}}
	for range 1001 { // more than one statement drops
		if err := audit.Write(t.Context(), pool, ids.Next, entry); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(time.Hour)
	if err := audit.Write(t.Context(), pool, ids.Next, entry); err != nil {
		t.Fatal(err)
	}
	for shard, want := range map[int16]int64{0: 1001, 1: 0} {
		if n, err := log.DropOld(t.Context(), shard, noon.Add(time.Minute)); err != nil || n != want {
			t.Errorf("bucket %d: %d dropped, %v", shard, n, err)
		}
	}
	left, err := log.List(t.Context(), audit.Filter{}, 10, id.ID{})
	if err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://example.com/hook":                     "https://example.com/hook",
		"https://user:secret@example.com:8443/a%2Fb":   "https://example.com:8443/a%2Fb",
		"https://example.com/hook?token=secret#secret": "https://example.com/hook?…",
		"https://exa mple.com/\x7f":                    "?",
	} {
		if got := audit.URL(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}
