package portal

import (
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

// pageSize is how many rows a list shows at once.
const pageSize = 50

type endpointsPage struct {
	Rows     []endpointRow
	Pager    pager
	MayWrite bool
}

// endpointRow is an endpoint with how it is.
type endpointRow struct {
	subscriptions.Endpoint
	Health string // a word that has a look
}

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
	found, next := cut(found, func(e subscriptions.Endpoint) id.ID { return e.ID })
	data := endpointsPage{Pager: pagerOf(v.R.URL, id.Endpoint, next), MayWrite: v.May(web.Writer)}
	for _, e := range found {
		data.Rows = append(data.Rows, endpointRow{e, healthOf(e)})
	}
	return v.Show(web.Page{Name: "endpoints", Title: "Endpoints", Section: "endpoints", Data: data})
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
