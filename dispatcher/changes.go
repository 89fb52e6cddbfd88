package dispatcher

import (
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/id"
)

// What has changed about endpoints is told once it is committed, a line for each change, whatever the number of attempts that led to it.

// logClosed tells of endpoints that attempts have switched off or found dead.
func (d *Dispatcher) logClosed(entries []audit.Entry) {
	for _, e := range entries {
		d.log.Warn().Str("endpoint", id.Endpoint.Format(e.Object.ID)).Str("tenant", id.Tenant.Format(*e.Tenant)).
			Any("details", e.Details).Msg("endpoint.status_changed")
	}
}

// logBreakers tells of breakers that a batch of attempts has opened or closed.
func (d *Dispatcher) logBreakers(won []result) {
	var told map[id.ID]bool
	for i := range won {
		r := &won[i]
		if !r.opens && r.claimed.turn.IsZero() && !r.claimed.past { // nearly all
			continue
		}
		c, endpoint := d.paceChange(*r), r.claimed.endpoint()
		if !c.Open && !c.Close || told[endpoint] {
			continue
		}
		if told == nil {
			told = map[id.ID]bool{}
		}
		told[endpoint] = true
		if c.Open {
			d.log.Warn().Str("endpoint", id.Endpoint.Format(endpoint)).Str("outcome", r.outcome.String()).Time("until", c.Until).Msg("breaker.opened")
			continue
		}
		d.log.Info().Str("endpoint", id.Endpoint.Format(endpoint)).Msg("breaker.closed")
	}
}
