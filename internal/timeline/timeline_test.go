package timeline_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/timeline"
)

func TestWaterfall(t *testing.T) {
	t.Parallel()
	ms := func(n int) *time.Duration { d := time.Duration(n) * time.Millisecond; return &d }
	whole := timeline.Draw(nil, dispatcher.Timings{DNS: ms(10), Connect: ms(20), TLS: ms(30), FirstByte: ms(160), Total: ms(200)})
	var names []string
	var took time.Duration
	end := 0.0
	for _, s := range whole.Rows {
		names, took = append(names, s.Name), took+s.Took
		if s.X < end-0.01 {
			t.Errorf("%s begins at %v, before %v, where the one before it ends", s.Name, s.X, end)
		}
		end = s.X + s.W
	}
	if strings.Join(names, " ") != "DNS connect TLS first byte body" || took != 200*time.Millisecond || end > float64(whole.Width) {
		t.Errorf("the stages are %v, %v in all, and end at %v", names, took, end)
	}
	kept := timeline.Draw(nil, dispatcher.Timings{FirstByte: ms(5), Total: ms(5)})
	if len(kept.Rows) != 2 || kept.Rows[0].Name != "first byte" {
		t.Errorf("over a kept connection: %+v", kept.Rows)
	}
	if none := timeline.Draw(nil, dispatcher.Timings{DNS: ms(5), Total: ms(10)}); len(none.Rows) != 2 || none.Rows[1].Name != "no answer" {
		t.Errorf("without an answer: %+v", none.Rows)
	}
	for waited, share := range map[time.Duration]float64{5 * time.Millisecond: 0.25, time.Millisecond: 1.0 / 6, 6 * time.Hour: 0.25} {
		rows := timeline.Draw(&waited, dispatcher.Timings{FirstByte: ms(4), Total: ms(5)}).Rows
		if len(rows) != 3 || rows[0].Name != "queued" || rows[0].Took != waited || math.Abs(rows[0].W-share*490) > 1 || rows[1].X < rows[0].X+rows[0].W-0.01 {
			t.Errorf("after a wait of %v: %+v", waited, rows)
		}
		if end := rows[2].X + rows[2].W; math.Abs(end-570) > 2 {
			t.Errorf("after a wait of %v it ends at %v", waited, end)
		}
	}
	if unknown := timeline.Draw(nil, dispatcher.Timings{}); unknown.Rows != nil {
		t.Errorf("of unknown length: %+v", unknown.Rows)
	}
}

func TestWhereADeliveryStandsInItsSchedule(t *testing.T) {
	t.Parallel()
	usual := []time.Duration{time.Minute, 5 * time.Minute}
	classes := func(d dispatcher.Delivery) string {
		var out []string
		for _, s := range timeline.Schedule(d, nil, usual) {
			out = append(out, s.Class)
		}
		return strings.Join(out, ",")
	}
	for want, d := range map[string]dispatcher.Delivery{
		"now,,":          {State: dispatcher.Pending},
		"past,now,":      {State: dispatcher.Pending, Attempts: 1, Failures: 1},
		"past,past,now":  {State: dispatcher.InFlight, Attempts: 3, Failures: 2},
		"past,done":      {State: dispatcher.StateSucceeded, Attempts: 2, Failures: 2},
		"past":           {State: dispatcher.StateFailed, Attempts: 1, Failures: 1}, // at once, and nothing is to come
		"past,past,past": {State: dispatcher.StateFailed, Attempts: 3, Failures: 3},
	} {
		if got := classes(d); got != want {
			t.Errorf("%v after %d failures: %s, not %s", d.State, d.Failures, got, want)
		}
	}
	if got := timeline.Schedule(dispatcher.Delivery{State: dispatcher.Pending}, []time.Duration{time.Hour}, usual); len(got) != 2 {
		t.Errorf("an endpoint's own schedule: %+v", got)
	}
}
