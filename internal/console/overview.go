package console

import (
	"cmp"
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/stats"
	"github.com/postrider/postrider/internal/watch"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

type overviewPage struct {
	Spans     []view
	Series    stats.Series
	Rate      float64 // of success
	HasRate   bool
	PerMinute float64
	Traffic   web.Chart
	Latency   web.Chart
	Waiting   dispatcher.Unfinished
	OldestDue time.Duration // 0: nothing is due
	Depth     int64
	Endpoints []endpointCount
	Alerts    []alertRow
	Processes []roleCount
	Unknown   int // processes of an older version, which do not say what they are
	Outcomes  []outcomeCount
}

type outcomeCount struct {
	Outcome string
	Count   int64
	Share   float64
}

// figureSpans are the stretches of time that figures can be about.
var figureSpans = []struct {
	name, label string
	back        time.Duration
}{{"1h", "Last hour", time.Hour}, {"24h", "24 hours", 24 * time.Hour}, {"7d", "7 days", 7 * 24 * time.Hour}}

func (p *pages) overview(v *web.Visit) error {
	back, spans, err := readSpan(v, Base+"/", "1h")
	if err != nil {
		return err
	}
	data := overviewPage{Spans: spans}
	if err := p.readOverview(v, back, &data); err != nil {
		return err
	}
	return v.Show(web.Page{Name: "overview", Title: "Overview", Section: "overview", Charts: true, Data: data})
}

// readSpan reads over which time the figures of the page at a path are, and gives the ways to other ones.
func readSpan(v *web.Visit, path, usual string) (back time.Duration, spans []view, err error) {
	asked := cmp.Or(v.R.URL.Query().Get("span"), usual)
	for _, s := range figureSpans {
		spans = append(spans, view{s.label, path + "?span=" + s.name, s.name == asked})
		if s.name == asked {
			back = s.back
		}
	}
	if back == 0 {
		return 0, nil, fault.InvalidAt("/span", "is none of 1h, 24h, 7d")
	}
	return back, spans, nil
}

func (p *pages) readOverview(v *web.Visit, back time.Duration, data *overviewPage) (err error) {
	if data.Series, err = p.d.Stats.Overview(v.Ctx(), v.Now.Add(-back), 0); err != nil {
		return err
	}
	data.Rate, data.HasRate = data.Series.SuccessRate()
	data.PerMinute = float64(data.Series.Finished.Sum()) / max(data.Series.Until.Sub(data.Series.Since).Minutes(), 1)
	data.Traffic, data.Latency = trafficChart(data.Series), latencyChart(data.Series)
	data.Outcomes = outcomesOf(data.Series.Attempts)
	if data.Waiting, err = p.d.Deliveries.CountUnfinished(v.Ctx()); err != nil {
		return err
	}
	for _, n := range data.Waiting.Counts {
		data.Depth += n
	}
	if due := data.Waiting.OldestDue; !due.IsZero() {
		data.OldestDue = max(v.Now.Sub(due), time.Millisecond)
	}
	counts, err := p.d.Subscriptions.CountEndpoints(v.Ctx(), nil)
	if err != nil {
		return err
	}
	data.Endpoints = healthOf(counts)
	fleet, err := p.d.Processes(v.Ctx())
	if err != nil {
		return err
	}
	data.Unknown = fleet.Unknown
	for _, role := range watch.Roles() {
		data.Processes = append(data.Processes, roleCount{role, fleet.Working(role)})
	}
	open, err := p.d.Alerts.List(v.Ctx(), alert.Filter{States: []alert.State{alert.Open, alert.Acknowledged}}, 5, id.ID{})
	if err != nil {
		return err
	}
	data.Alerts, err = p.alertRows(v.Ctx(), open)
	return err
}

// roleCount is how many processes do what a role is for.
type roleCount struct {
	Role  string
	Count int
}

// endpointCount is how many endpoints are how.
type endpointCount struct {
	Health string
	Count  int64
}

func healthOf(c subscriptions.EndpointCounts) []endpointCount {
	return []endpointCount{
		{"healthy", c.Well}, {"failing", c.Failing}, {"paused", c.Paused}, {"disabled", c.Disabled}, {"dead", c.Dead},
	}
}

// outcomesOf gives the outcomes that there were, each with its share.
func outcomesOf(counts stats.Counts) []outcomeCount {
	var out []outcomeCount
	all := counts.Sum()
	for _, o := range dispatcher.Outcomes() {
		if n := counts.Of(o); n > 0 {
			out = append(out, outcomeCount{o.String(), n, float64(n) / float64(all)})
		}
	}
	return out
}

// bands are the outcomes as charts have them: too many colours say nothing.
var bands = []struct {
	label, colour string
	of            []dispatcher.Outcome
}{
	{"succeeded", "good", []dispatcher.Outcome{dispatcher.Succeeded}},
	{"receiver's trouble (429, 5xx, redirects)", "warn", []dispatcher.Outcome{dispatcher.Retryable, dispatcher.Redirected}},
	{"no answer (time-out, DNS, connection, TLS)", "edge", []dispatcher.Outcome{
		dispatcher.Timeout, dispatcher.DNSError, dispatcher.ConnectError, dispatcher.TLSError, dispatcher.ProtocolError, dispatcher.Unknown,
	}},
	{"refused (4xx, blocked)", "bad", []dispatcher.Outcome{dispatcher.Unauthorized, dispatcher.Gone, dispatcher.Rejected, dispatcher.Blocked}},
}

// trafficChart shows attempts by outcome, a minute's worth of each step.
func trafficChart(s stats.Series) web.Chart {
	c := web.Chart{Title: "Attempts per minute by outcome", Stacked: true}
	per := max(s.Step.Minutes(), 1)
	for _, b := range bands {
		c.Series = append(c.Series, web.Line{Label: b.label, Colour: b.colour})
	}
	for _, point := range s.Points {
		c.X = append(c.X, point.At.Unix())
		for i, b := range bands {
			var n int64
			for _, o := range b.of {
				n += point.Attempts.Of(o)
			}
			c.Series[i].Values = append(c.Series[i].Values, rounded(float64(n)/per))
		}
	}
	return c
}

// latencyChart shows how long attempts took, in milliseconds.
func latencyChart(s stats.Series) web.Chart {
	c := web.Chart{Title: "How long attempts took", Unit: "ms", Series: []web.Line{
		{Label: "p50", Colour: "good"}, {Label: "p95", Colour: "accent"}, {Label: "p99", Colour: "bad"},
	}}
	for _, point := range s.Points {
		c.X = append(c.X, point.At.Unix())
		for i, d := range []time.Duration{point.Latency.P50, point.Latency.P95, point.Latency.P99} {
			var value *float64
			if point.Latency.Measured > 0 {
				value = rounded(float64(d) / float64(time.Millisecond))
			}
			c.Series[i].Values = append(c.Series[i].Values, value)
		}
	}
	return c
}

func rounded(x float64) *float64 {
	x = float64(int64(x*10+0.5)) / 10
	return &x
}
