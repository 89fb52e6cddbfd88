package dispatcher

import (
	"testing"
	"time"
)

func keysOf(due []dueLane) []int64 {
	out := make([]int64, len(due))
	for i, l := range due {
		out[i] = l.key.endpoint
	}
	return out
}

func equal(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func two(laneKey) int { return 2 }

func TestLanesTakeTurns(t *testing.T) {
	t.Parallel()
	l := newLanes()
	for endpoint := range int64(4) {
		l.note(laneKey{1, endpoint + 1}, noon)
	}
	if got := keysOf(l.due(noon, two)); !equal(got, []int64{1, 2, 3, 4}) {
		t.Fatalf("first round: %v", got)
	}
	// A round that got as far as the second endpoint, which gave all it was asked for.
	l.claimed(noon, map[int16][]wish{1: {{2, 1}}}, []claimed{{Shard: 1, EndpointID: 2}})
	if got := keysOf(l.due(noon, two)); !equal(got, []int64{3, 4, 1, 2}) {
		t.Errorf("next round: %v", got)
	}
}

func TestSaturatedLaneIsLeftOutUntilASlotIsFree(t *testing.T) {
	t.Parallel()
	l := newLanes()
	key := laneKey{1, 7}
	l.note(key, noon)
	l.claimed(noon, map[int16][]wish{1: {{7, 2}}}, []claimed{{Shard: 1, EndpointID: 7}, {Shard: 1, EndpointID: 7}})
	if got := l.due(noon, two); len(got) != 0 {
		t.Errorf("saturated, but due: %v", got)
	}
	l.sent(key)
	if got := l.due(noon, two); len(got) != 1 || got[0].free != 1 {
		t.Errorf("one slot free: %v", got)
	}
}

func TestLaneThatGaveLessThanAskedIsDry(t *testing.T) {
	t.Parallel()
	l := newLanes()
	key := laneKey{1, 7}
	l.note(key, noon)
	l.claimed(noon, map[int16][]wish{1: {{7, 2}}}, []claimed{{Shard: 1, EndpointID: 7}})
	if got := l.due(noon.Add(time.Hour), two); len(got) != 0 {
		t.Errorf("dry, but due: %v", got)
	}
	l.sent(key)
	if len(l.byKey) != 0 {
		t.Errorf("idle lanes stay in memory: %v", l.byKey)
	}
}

func TestLaneKeepsWhatIsDueLater(t *testing.T) {
	t.Parallel()
	l := newLanes()
	key := laneKey{1, 7}
	later := noon.Add(time.Minute)
	l.note(key, later)
	if got := l.due(noon, two); len(got) != 0 {
		t.Errorf("not due yet: %v", got)
	}
	if got := l.next(noon); !got.Equal(later) {
		t.Errorf("next is %v", got)
	}
	l.claimed(noon, map[int16][]wish{1: {{7, 2}}}, nil) // an older claim comes back empty
	if got := keysOf(l.due(later, two)); !equal(got, []int64{7}) {
		t.Errorf("what was noted for later is lost: %v", got)
	}
	l.note(key, later.Add(time.Hour))
	if got := l.next(noon); !got.Equal(later) {
		t.Errorf("a later note moved the first one: %v", got)
	}
	l.forget(key)
	if len(l.byKey) != 0 {
		t.Errorf("forgotten, but there: %v", l.byKey)
	}
}
