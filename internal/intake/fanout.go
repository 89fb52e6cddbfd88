package intake

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/filter"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

const (
	// SkipNotNamed means that the event named its endpoints, and this one is not among them.
	SkipNotNamed subscriptions.SkipReason = "endpoint_ids"
	// SkipSchema means that the event breaks the schema of its type, and could not be refused: its producer enqueued it within a
	// transaction of his own. Where is kept beside it.
	SkipSchema subscriptions.SkipReason = "schema"
)

// skipRow is how a skipped endpoint is stored.
type skipRow struct {
	Endpoint int64                    `json:"e"`
	Reason   subscriptions.SkipReason `json:"r"`
	Detail   string                   `json:"d,omitempty"`
}

// candidates are the endpoints of the tenants of a group.
type candidates map[id.ID][]subscriptions.Candidate

// target is an endpoint that an event goes to.
type target struct {
	endpoint int64
	pull     bool
	ordered  bool
}

// route gives each new event of a draft its endpoints.
func (d *draft) route(endpoints []subscriptions.Candidate, filters *filter.Cache) {
	var at fault.Fields
	for n := range d.items {
		if !d.isNew(n) {
			continue
		}
		e := &d.events[n]
		at.Add(d.items[n].at, d.items[n].broken)
		if d.only != nil {
			only, err := testable(endpoints, *d.only, d.tenant)
			if err != nil {
				d.err = err
				return
			}
			e.targets, e.skipped = []target{only}, addressed(nil)
		} else {
			named, unknown := resolve(endpoints, d.tenant.Shard, d.items[n].EndpointIDs)
			for _, place := range unknown {
				at.Addf(fmt.Sprintf("%s/endpoint_ids/%d", d.items[n].at, place), "the tenant has no such endpoint")
			}
			d.aim(n, endpoints, named, filters, "")
		}
		e.fanOut = len(e.targets)
	}
	if err := at.Err(); err != nil {
		d.err = err
	}
}

// aim is the fan-out of one event: who gets it and who does not, however it came in. named narrows it unless nil. What breaks
// its schema, for the reason given, goes to nobody.
func (d *draft) aim(n int, endpoints []subscriptions.Candidate, named map[int64]bool, filters *filter.Cache, broken string) {
	e := &d.events[n]
	var skipped []skipRow
	e.targets, skipped = match(endpoints, named, d.items[n].Type, d.asker(n, filters))
	if broken != "" {
		for _, t := range e.targets {
			skipped = append(skipped, skipRow{t.endpoint, SkipSchema, broken})
		}
		slices.SortFunc(skipped, func(a, b skipRow) int { return cmp.Compare(a.Endpoint, b.Endpoint) })
		e.targets = nil
	}
	if e.skipped = spell(skipped); named != nil {
		e.skipped = addressed(e.skipped)
	}
	e.fanOut = len(e.targets)
}

func testable(candidates []subscriptions.Candidate, endpoint, tenant id.ID) (target, error) {
	n := slices.IndexFunc(candidates, func(c subscriptions.Candidate) bool { return c.Endpoint == endpoint.N })
	switch {
	case n < 0 || endpoint.Shard != tenant.Shard:
		return target{}, fault.New(fault.NotFound, "no such endpoint")
	case candidates[n].Status == subscriptions.Dead:
		return target{}, fault.New(fault.Conflict, "the endpoint is dead: its receiver answered 410 Gone. Enable it first")
	}
	return target{endpoint.N, candidates[n].Pull, candidates[n].Ordered}, nil
}

// addressed is what is stored as the skipped endpoints of an event that was meant for some alone, if it skipped none: an empty
// list, where others have NULL. So a replay knows that an endpoint which is made later has missed nothing by it.
func addressed(skipped *string) *string {
	if skipped != nil {
		return skipped
	}
	none := "[]"
	return &none
}

// resolve finds the endpoints that refs (ids or uids) name, and the places of those that name none. No refs: nil.
func resolve(candidates []subscriptions.Candidate, shard int16, refs []string) (named map[int64]bool, unknown []int) {
	if refs == nil {
		return nil, nil
	}
	known := make(map[string]int64, 2*len(candidates))
	for _, c := range candidates {
		known[id.Endpoint.Format(id.ID{Shard: shard, N: c.Endpoint})] = c.Endpoint
		if c.UID != nil {
			known[*c.UID] = c.Endpoint
		}
	}
	named = make(map[int64]bool, len(refs))
	for place, ref := range refs {
		n, there := known[ref]
		if !there {
			unknown = append(unknown, place)
			continue
		}
		named[n] = true
	}
	return named, unknown
}

// asker gives what asks the filters of candidates about the n-th item. What they look at is made when there is one.
func (d *draft) asker(n int, filters *filter.Cache) func(subscriptions.Candidate) (bool, subscriptions.SkipReason, string) {
	var seen *filter.Event
	return func(c subscriptions.Candidate) (bool, subscriptions.SkipReason, string) {
		if seen == nil {
			it, event := &d.items[n], d.events[n].n
			seen = &filter.Event{
				ID:  func() string { return id.Event.Format(id.ID{Shard: d.tenant.Shard, N: event}) },
				UID: it.UID, GroupKey: it.GroupKey, Type: it.Type, CreatedAt: id.TimeOf(event),
				ContentType: it.ContentType, Payload: it.Payload,
			}
		}
		return c.Passes(filters, seen)
	}
}

// match says who gets an event of this type, each endpoint once, and who does not and why. named narrows it unless nil; asked is
// called for those that have a filter and would get it otherwise.
func match(
	candidates []subscriptions.Candidate, named map[int64]bool, eventType string,
	asked func(subscriptions.Candidate) (bool, subscriptions.SkipReason, string),
) (targets []target, skipped []skipRow) {
	for _, c := range candidates {
		matched, reason := c.Match(eventType)
		if named != nil && !named[c.Endpoint] {
			matched, reason = false, SkipNotNamed
		}
		detail := ""
		if matched && c.Filter != nil {
			matched, reason, detail = asked(c)
		}
		if matched {
			targets = append(targets, target{c.Endpoint, c.Pull, c.Ordered})
		} else {
			skipped = append(skipped, skipRow{c.Endpoint, reason, detail})
		}
	}
	return targets, skipped
}

func spell(skipped []skipRow) *string {
	if len(skipped) == 0 {
		return nil
	}
	text, _ := json.Marshal(skipped) // numbers and strings: cannot fail
	s := string(text)
	return &s
}
