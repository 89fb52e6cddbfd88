package intake

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/fault"
)

func itemOf(t testing.TB, ev Event) item {
	t.Helper()
	var at fault.Fields
	it := ev.settle(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), &at)
	if len(at) > 0 {
		t.Fatal(at)
	}
	it.digest = it.sum()
	return it
}

// Digests outlive a new version of the program by as long as keys are kept: this one must not change.
func TestDigestIsFixed(t *testing.T) {
	t.Parallel()
	when := time.Date(2026, 12, 1, 0, 0, 0, 1000, time.UTC)
	it := itemOf(t, Event{
		Type: "order.paid", Payload: []byte(`{"id":1}`), UID: "u-1", GroupKey: "g", DeliverAt: &when,
		EndpointIDs: []string{"b", "a"}, Metadata: map[string]any{"k": "<v>", "a": 1},
	})
	const want = "7b7af53b1f81a05a6a0487152dba684089d87b7f8df7a435c91bfe3995efd9f9"
	if got := hex.EncodeToString(it.digest[:]); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

func TestDigestTellsEveryDifference(t *testing.T) {
	t.Parallel()
	when, later := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 12, 1, 0, 0, 0, 1000, time.UTC)
	seen := map[digest]int{}
	for n, ev := range []Event{
		{Type: "t"},
		{Type: "tt"},
		{Type: "t", Payload: []byte("{}")},
		{Type: "t", Payload: []byte("{ }")},
		{Type: "t", Payload: []byte("{}"), ContentType: "text/plain"},
		{Type: "t", UID: "a"},
		{Type: "t", GroupKey: "a"},
		{Type: "t", DeliverAt: &when},
		{Type: "t", DeliverAt: &later},
		{Type: "t", EndpointIDs: []string{"a"}},
		{Type: "t", EndpointIDs: []string{"a", "b"}},
		{Type: "t", EndpointIDs: []string{"ab"}},
		{Type: "t", Metadata: map[string]any{"a": 1}},
		{Type: "t", Metadata: map[string]any{"a": "1"}},
	} {
		it := itemOf(t, ev)
		if m, again := seen[it.digest]; again {
			t.Errorf("events %d and %d have one digest", m, n)
		}
		seen[it.digest] = n
	}
}

func TestDigestOverlooksWhatMeansNothing(t *testing.T) {
	t.Parallel()
	utc := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	cet := utc.In(time.FixedZone("CET", 3600))
	for name, pair := range map[string][2]Event{
		"the default content type":    {{Type: "t"}, {Type: "t", ContentType: " application/json "}},
		"no payload and an empty one": {{Type: "t"}, {Type: "t", Payload: []byte{}}},
		"the time zone":               {{Type: "t", DeliverAt: &utc}, {Type: "t", DeliverAt: &cet}},
		"the order of endpoints":      {{Type: "t", EndpointIDs: []string{"a", "b"}}, {Type: "t", EndpointIDs: []string{"b", "a", "b"}}},
		"empty metadata":              {{Type: "t"}, {Type: "t", Metadata: map[string]any{}}},
	} {
		if a, b := itemOf(t, pair[0]), itemOf(t, pair[1]); a.digest != b.digest {
			t.Errorf("%s makes a difference", name)
		}
	}
}

// Fields cannot run into each other: the lengths are part of what is hashed.
func FuzzDigest(f *testing.F) {
	f.Add("ab", "c", "a", "bc")
	f.Fuzz(func(t *testing.T, uid1, group1, uid2, group2 string) {
		a, b := item{Event: Event{UID: uid1, GroupKey: group1}}, item{Event: Event{UID: uid2, GroupKey: group2}}
		if same := uid1 == uid2 && group1 == group2; (a.sum() == b.sum()) != same {
			t.Errorf("(%q, %q) and (%q, %q): one digest, %v", uid1, group1, uid2, group2, !same)
		}
	})
}
