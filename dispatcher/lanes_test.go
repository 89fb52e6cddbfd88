package dispatcher

import (
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
)

func endpointNumbers(due []dueLane) []int64 {
	out := make([]int64, len(due))
	for i, l := range due {
		out[i] = l.endpoint.N
	}
	return out
}

func TestLanesTakeTurnsFromBehindTheLastOne(t *testing.T) {
	t.Parallel()
	l := newLanes()
	for n := range int64(4) {
		l.note(id.ID{Shard: int16(n % 2), N: n + 1}, noon) // buckets 0, 1, 0, 1
	}
	if got := endpointNumbers(l.due(noon)); !slices.Equal(got, []int64{1, 3, 2, 4}) {
		t.Fatalf("first round: %v", got)
	}
	l.ended(id.ID{Shard: 0, N: 3})
	if got := endpointNumbers(l.due(noon)); !slices.Equal(got, []int64{2, 4, 1, 3}) {
		t.Errorf("next round: %v", got)
	}
}

func TestLaneCountsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	l := newLanes()
	key := id.ID{Shard: 1, N: 7}
	l.note(key, noon)
	l.claimed(noon, map[int16][]wish{1: {{7, 2}}}, []claimed{{Shard: 1, EndpointID: 7}, {Shard: 1, EndpointID: 7}})
	if got := l.due(noon); len(got) != 1 || got[0].inFlight != 2 {
		t.Errorf("two in flight and more due: %v", got)
	}
	l.sent(key)
	if got := l.due(noon); len(got) != 1 || got[0].inFlight != 1 {
		t.Errorf("one in flight: %v", got)
	}
}

func TestLaneThatGaveLessThanAskedIsDry(t *testing.T) {
	t.Parallel()
	l := newLanes()
	key := id.ID{Shard: 1, N: 7}
	l.note(key, noon)
	l.claimed(noon, map[int16][]wish{1: {{7, 2}}}, []claimed{{Shard: 1, EndpointID: 7}})
	if got := l.due(noon.Add(time.Hour)); len(got) != 0 {
		t.Errorf("dry, but due: %v", got)
	}
	l.sent(key)
	if len(l.byEndpoint) != 0 {
		t.Errorf("idle lanes stay in memory: %v", l.byEndpoint)
	}
}

func TestLaneKeepsWhatIsDueLater(t *testing.T) {
	t.Parallel()
	l := newLanes()
	key := id.ID{Shard: 1, N: 7}
	later, last := noon.Add(time.Minute), noon.Add(time.Hour)
	l.note(key, last)
	l.note(key, noon)
	l.note(key, later) // noted while a claim is on its way
	if got := l.next(noon); !got.Equal(later) {
		t.Errorf("next is %v", got)
	}
	l.claimed(noon, map[int16][]wish{1: {{7, 2}}}, []claimed{{Shard: 1, EndpointID: 7}})
	l.sent(key)
	if got := l.due(noon); len(got) != 0 {
		t.Errorf("dry, but due: %v", got)
	}
	if got := endpointNumbers(l.due(later)); !slices.Equal(got, []int64{7}) {
		t.Errorf("what was noted for later is lost: %v", got)
	}
	l.forget(key)
	if len(l.byEndpoint) != 0 {
		t.Errorf("forgotten, but there: %v", l.byEndpoint)
	}
}
