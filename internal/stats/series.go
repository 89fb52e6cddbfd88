package stats

import "time"

// maxPoints is how many points a series has at most, and nicePoints what a step of our own choice leads to.
const (
	maxPoints  = 1500
	nicePoints = 300
)

// gathered is a series on its way.
type gathered struct {
	Series
	begins  time.Time // the first point
	spreads []spread  // of the points
}

// newSeries lays out the points from since until now, in steps of a whole number of grains. The figures are of the time since then,
// to the grain; the first point may begin before that, on a round time, and then has only what is of it. A time to come has one
// point, now's.
func newSeries(since, now time.Time, step, grain time.Duration) *gathered {
	if since.After(now) {
		since = now
	}
	if step <= 0 {
		step = stepFor(now.Sub(since), grain, nicePoints)
	}
	step = max(roundUp(step, grain), roundUp(now.Sub(since)/maxPoints, grain))
	g := &gathered{Series: Series{Since: since.Truncate(grain).UTC(), Until: now.UTC(), Step: step}}
	g.begins = g.Since.Truncate(step)
	n := int(now.Sub(g.begins)/step) + 1
	g.Points, g.spreads = make([]Point, n), make([]spread, n)
	for i := range g.Points {
		g.Points[i].At = g.begins.Add(time.Duration(i) * step)
	}
	return g
}

// end is where the last step ends.
func (g *gathered) end() time.Time { return g.begins.Add(time.Duration(len(g.Points)) * g.Step) }

// sum works out what only all rows together tell.
func (g *gathered) sum() Series {
	var whole spread
	for i := range g.Points {
		p := &g.Points[i]
		p.Latency = g.spreads[i].latency()
		for o := range p.Attempts {
			g.Attempts[o] += p.Attempts[o]
			g.Finished[o] += p.Finished[o]
		}
		for b, n := range g.spreads[i] {
			whole[b] += n
		}
	}
	g.Latency = whole.latency()
	return g.Series
}

// roundUp gives the next whole number of grains, at least one.
func roundUp(d, grain time.Duration) time.Duration {
	if over := d % grain; over > 0 {
		d += grain - over
	}
	return max(d, grain)
}

// stepFor gives the least of the steps that people read well which leads to no more than so many points.
func stepFor(span, grain time.Duration, points int) time.Duration {
	for _, step := range []time.Duration{minute, 5 * minute, quarter, hour, 3 * hour, 6 * hour, 12 * hour} {
		if step >= grain && span/step < time.Duration(points) {
			return step
		}
	}
	return 24 * hour
}
