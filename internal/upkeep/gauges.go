package upkeep

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/subscriptions"
)

// gauges counts what the metrics show of the database and can be counted fast. It does nothing that is worth a line in the
// log. What cannot be counted stays as it was, and keeps nothing else from being counted.
func (d Deps) gauges(ctx context.Context) (int64, error) {
	open, err := d.Alerts.CountOpenByKind(ctx, nil)
	if err == nil {
		d.Metrics.SetAlertsOpen(alertKinds(), func(kind string) int64 {
			k, _ := alert.ParseKind(kind) // one of theirs
			return open[k]
		})
	}
	u, uerr := d.Desk.CountUnfinished(ctx)
	d.setDeliveries(u.Counts)
	if !u.At.IsZero() {
		d.Metrics.SetOldestDue(ageOf(u.OldestDue, u.At))
	}
	return 0, errors.Join(err, uerr, d.overdueGauge(ctx), d.endpointGauges(ctx))
}

// lateAfter is how long a delivery is due before it is looked at whether somebody is late: less is the way of things under load.
const lateAfter = 5 * time.Second

func (d Deps) overdueGauge(ctx context.Context) error {
	now := d.Now()
	late, err := d.Desk.LateSince(ctx, now.Add(-lateAfter))
	if err != nil {
		return err
	}
	age := time.Duration(0)
	if late != nil {
		age = ageOf(late.Since, now)
	}
	d.Metrics.SetOldestOverdue(age)
	return nil
}

// endpointGauges counts endpoints by how they are, and their breakers.
func (d Deps) endpointGauges(ctx context.Context) error {
	counts, err := d.Store.CountEndpoints(ctx, nil)
	if err == nil {
		for _, health := range subscriptions.Healths() {
			d.Metrics.SetEndpoints(health, counts.Of(health))
		}
	}
	breakers, berr := d.Store.CountBreakers(ctx)
	for state, n := range breakers {
		d.Metrics.SetBreakers(state, n)
	}
	return errors.Join(err, berr)
}

// ageOf is how long ago something began; 0: it is not so, or the clock has been set back.
func ageOf(since, now time.Time) time.Duration {
	if since.IsZero() {
		return 0
	}
	return max(now.Sub(since), 0)
}

func alertKinds() []string {
	var kinds []string
	for _, k := range slices.Concat(alert.Kinds(), alert.ServiceKinds()) {
		kinds = append(kinds, k.String())
	}
	return kinds
}

// forgetGauges has this process show nothing of what another counts from now on: whoever looks takes the max over processes.
func (d Deps) forgetGauges() {
	d.Metrics.SetAlertsOpen(alertKinds(), func(string) int64 { return 0 })
	d.Metrics.SetOldestDue(0)
	d.Metrics.SetOldestOverdue(0)
	for _, health := range subscriptions.Healths() {
		d.Metrics.SetEndpoints(health, 0)
	}
	for _, state := range subscriptions.Breakers() {
		d.Metrics.SetBreakers(state, 0)
	}
	for _, s := range dispatcher.States() {
		if !s.Finished() {
			d.Metrics.SetDeliveries(s.String(), 0)
		}
	}
}

func (d Deps) forgetHistory() {
	for _, s := range dispatcher.States() {
		if s.Finished() {
			d.Metrics.SetDeliveries(s.String(), 0)
		}
	}
}

// historyGauges counts what is finished.
func (d Deps) historyGauges(ctx context.Context) (int64, error) {
	counts, err := d.Desk.CountFinished(ctx)
	d.setDeliveries(counts)
	return 0, err
}

func (d Deps) setDeliveries(counts map[dispatcher.State]int64) {
	for state, n := range counts {
		d.Metrics.SetDeliveries(state.String(), n)
	}
}
