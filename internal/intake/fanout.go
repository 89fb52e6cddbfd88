package intake

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// SkipNotNamed means that the event named its endpoints, and this one is not among them.
const SkipNotNamed subscriptions.SkipReason = "endpoint_ids"

// skipRow is how a skipped endpoint is stored.
type skipRow struct {
	Endpoint int64                    `json:"e"`
	Reason   subscriptions.SkipReason `json:"r"`
}

// fanOut finds the endpoints of every new event. They are read inside the transaction, after the wait for a key: an
// endpoint that was registered before the request came is seen.
func fanOut(ctx context.Context, tx pgx.Tx, drafts []*draft) error {
	read := map[id.ID][]subscriptions.Candidate{}
	for _, d := range drafts {
		if d.made() == 0 {
			continue
		}
		candidates, there := read[d.tenant]
		if !there {
			var err error
			if candidates, err = subscriptions.Candidates(ctx, tx, d.tenant.Shard, d.tenant.N); err != nil {
				return fmt.Errorf("read a tenant's endpoints: %w", err)
			}
			read[d.tenant] = candidates
		}
		if err := d.route(candidates); err != nil {
			d.err = err
		}
	}
	return nil
}

// route gives each new event of a draft its endpoints.
func (d *draft) route(candidates []subscriptions.Candidate) error {
	var at fault.Fields
	for n := range d.items {
		if !d.isNew(n) {
			continue
		}
		e := &d.events[n]
		if d.only != nil {
			if err := testable(candidates, *d.only, d.tenant); err != nil {
				return err
			}
			e.targets = []int64{d.only.N}
		} else {
			named, unknown := resolve(candidates, d.tenant.Shard, d.items[n].EndpointIDs)
			for _, place := range unknown {
				at.Addf(fmt.Sprintf("%s/endpoint_ids/%d", d.items[n].at, place), "the tenant has no such endpoint")
			}
			var skipped []skipRow
			e.targets, skipped = match(candidates, named, d.items[n].Type)
			e.skipped = spell(skipped)
		}
		e.fanOut = len(e.targets)
	}
	return at.Err()
}

func testable(candidates []subscriptions.Candidate, endpoint, tenant id.ID) error {
	n := slices.IndexFunc(candidates, func(c subscriptions.Candidate) bool { return c.Endpoint == endpoint.N })
	switch {
	case n < 0 || endpoint.Shard != tenant.Shard:
		return fault.New(fault.NotFound, "no such endpoint")
	case candidates[n].Status == subscriptions.Dead:
		return fault.New(fault.Conflict, "the endpoint is dead: its receiver answered 410 Gone. Enable it first")
	}
	return nil
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

// match says who gets an event of this type, each endpoint once, and who does not and why. named narrows it unless nil.
func match(candidates []subscriptions.Candidate, named map[int64]bool, eventType string) (targets []int64, skipped []skipRow) {
	for _, c := range candidates {
		matched, reason := c.Match(eventType)
		if named != nil && !named[c.Endpoint] {
			matched, reason = false, SkipNotNamed
		}
		if matched {
			targets = append(targets, c.Endpoint)
		} else {
			skipped = append(skipped, skipRow{c.Endpoint, reason})
		}
	}
	return targets, skipped
}

func spell(skipped []skipRow) *string {
	if len(skipped) == 0 {
		return nil
	}
	text, _ := json.Marshal(skipped) // numbers and plain strings: cannot fail
	s := string(text)
	return &s
}
