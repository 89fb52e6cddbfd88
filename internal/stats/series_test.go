package stats

import (
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func TestARestIsInProportionToWhatIsWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rows int
		took time.Duration
		want time.Duration
	}{
		{0, 0, time.Second},
		{20, 9 * ms, time.Second},
		{100, 9 * ms, 5 * time.Second},
		{20, 70 * ms, 7 * time.Second},
		{100_000, time.Second, time.Minute},
		{1, time.Hour, time.Minute},
	} {
		if got := restAfter(c.took, c.rows); got != c.want {
			t.Errorf("after %s and before %d rows: %s, want %s", c.took, c.rows, got, c.want)
		}
	}
}

func TestASpanIsLookedAtNoFinerThanItsPointsNeed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ span, step, want time.Duration }{
		{hour, 0, minute},
		{hour, quarter, quarter},
		{hour, 2 * hour, hour},
		{5 * hour, 0, minute},
		{5*hour + 1, 0, quarter},
		{24 * hour, 5 * minute, quarter},
		{24 * hour, hour, hour},
		{47 * hour, 0, quarter},
		{47*hour + 1, 0, hour},
		{-hour, 0, minute},
	} {
		if got := grainOf(c.span, c.step); got != c.want {
			t.Errorf("%s by %s is looked at by %s, want %s", c.span, c.step, got, c.want)
		}
	}
}

func TestStepsAndPoints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what        string
		before      time.Duration // how long before now it begins
		step, grain time.Duration
		since       time.Time
		wantStep    time.Duration
		points      int
		lastAt      time.Time
	}{
		{what: "an hour", before: hour, grain: minute, since: noon.Add(-hour), wantStep: minute, points: 61, lastAt: noon},
		{what: "a day", before: 24 * hour, grain: minute, since: noon.Add(-24 * hour), wantStep: 5 * minute, points: 289, lastAt: noon},
		{what: "a day by quarters", before: 24 * hour, grain: quarter, since: noon.Add(-24 * hour), wantStep: quarter, points: 97, lastAt: noon},
		{what: "a month", before: 30 * 24 * hour, grain: hour, since: noon.Add(-30 * 24 * hour), wantStep: 3 * hour, points: 241, lastAt: noon},
		{what: "a step that divides nothing", before: hour, step: 7*minute + 1, grain: minute, since: noon.Add(-hour), wantStep: 8 * minute, points: 9, lastAt: noon},
		{what: "a step below the grain", before: hour, step: time.Second, grain: quarter, since: noon.Add(-hour), wantStep: quarter, points: 5, lastAt: noon},
		{what: "too many points", before: 3000 * minute, step: minute, grain: minute, since: noon.Add(-3000 * minute), wantStep: 2 * minute, points: 1501, lastAt: noon},
		{what: "now", grain: minute, since: noon, wantStep: minute, points: 1, lastAt: noon},
		{what: "a time to come", before: -hour, grain: minute, since: noon, wantStep: minute, points: 1, lastAt: noon},
	} {
		s := newSeries(noon.Add(-c.before), noon, c.step, c.grain)
		if !s.Since.Equal(c.since) || s.Step != c.wantStep || len(s.Points) != c.points || !s.Points[len(s.Points)-1].At.Equal(c.lastAt) {
			t.Errorf("%s: %d points from %s to %s by %s", c.what, len(s.Points), s.Since, s.Points[len(s.Points)-1].At, s.Step)
		}
		if !s.end().After(noon) {
			t.Errorf("%s: ends at %s", c.what, s.end())
		}
	}
}
