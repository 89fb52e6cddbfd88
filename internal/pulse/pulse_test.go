package pulse_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/internal/pulse"
)

func TestALoopThatDoesNotGoRoundStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p pulse.Pulse
		want := func(when string, turned, worked time.Duration) {
			t.Helper()
			if got := p.Still(); got != (pulse.Still{Turned: turned, Worked: worked}) {
				t.Errorf("%s: %+v", when, got)
			}
		}
		<-time.After(time.Minute)
		want("not begun", 0, 0)
		p.Begin()
		<-time.After(time.Second)
		want("begun", time.Second, time.Second)
		p.Turn()
		want("round, and not well", 0, time.Second)
		p.Begin()
		want("without a rest", 0, time.Second)
		p.Work()
		want("round", 0, 0)
		<-time.After(time.Second)
		p.Rest()
		want("at rest", 0, 0)
		<-time.After(time.Second)
		p.Begin()
		want("after it", 0, 0)
	})
	a, b := pulse.Still{Turned: 1, Worked: 5}, pulse.Still{Turned: 2, Worked: 4}
	if got := a.And(b); got != (pulse.Still{Turned: 2, Worked: 5}) {
		t.Errorf("the worse of both: %+v", got)
	}
}
