package portal

import (
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/stats"
	"github.com/postrider/postrider/internal/timeline"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

// pageSize is how many rows a list shows at once.
const pageSize = web.PageSize

type endpointsPage struct {
	Rows     []endpointRow
	Pager    web.Pager
	MayWrite bool
}

// endpointRow is an endpoint with how it is.
type endpointRow struct {
	subscriptions.Endpoint
	Health  string // a word that has a look
	Figures stats.Series
	Rate    float64 // of attempts that succeeded
	HasRate bool
	Spark   web.Spark
}

// healthSpan is the time that pages tell of endpoints' health over.
const healthSpan = 24 * time.Hour

func (p *pages) endpoints(v *web.Visit) error {
	t, err := p.tenant(v)
	if err != nil {
		return err
	}
	before, err := readCursor(v.R.URL, id.Endpoint)
	if err != nil {
		return err
	}
	found, err := p.d.Subscriptions.Endpoints(v.Ctx(), t, pageSize+1, before)
	if err != nil {
		return err
	}
	found, next := web.Cut(found, func(e subscriptions.Endpoint) id.ID { return e.ID })
	data := endpointsPage{Pager: web.PagerOf(v.R.URL, id.Endpoint, next), MayWrite: v.May(web.Writer)}
	if data.Rows, err = p.endpointRows(v, found); err != nil {
		return err
	}
	return v.Show(web.Page{Name: "endpoints", Title: "Endpoints", Section: "endpoints", Data: data})
}

// endpointRows looks up how endpoints have been, all in one go.
func (p *pages) endpointRows(v *web.Visit, found []subscriptions.Endpoint) ([]endpointRow, error) {
	ids := make([]id.ID, 0, len(found))
	for _, e := range found {
		ids = append(ids, e.ID)
	}
	figures, err := p.d.Stats.EndpointsHealth(v.Ctx(), ids, v.Now.Add(-healthSpan))
	if err != nil {
		return nil, err
	}
	out := make([]endpointRow, 0, len(found))
	for _, e := range found {
		r := endpointRow{Endpoint: e, Health: healthOf(e), Figures: figures[e.ID], Spark: timeline.Spark(figures[e.ID])}
		r.Rate, r.HasRate = r.Figures.SuccessRate()
		out = append(out, r)
	}
	return out, nil
}

// healthOf says in a word how an endpoint is doing.
func healthOf(e subscriptions.Endpoint) string {
	switch {
	case e.Status == subscriptions.Disabled:
		return "paused"
	case e.Status == subscriptions.Dead:
		return "dead"
	case e.ConsecutiveFailures > 0:
		return "failing"
	}
	return "healthy"
}
