package dispatcher

import (
	"context"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// List is Search for those that need whole pages: it gives fewer than limit only at the end. Each statement reads both tables
// in one snapshot and asks for ids that no other one asks for, so a delivery comes once even while it moves from one table to
// the other, and pages stay stable while new ones arrive. A search that takes longer than pg.SearchPatience is an invalid
// fault that says to narrow it.
func (k *Desk) List(ctx context.Context, f Filter, limit int, before id.ID) ([]Delivery, error) {
	p, err := k.search(ctx, f, limit, before, allowance{budget: pg.SearchPatience, first: firstWindow, most: pg.SearchPatience})
	if err != nil {
		return nil, err
	}
	if len(p.Deliveries) < max(limit, 1) && !p.Next.IsZero() {
		return nil, fault.New(fault.Invalid,
			"the search takes too long: narrow it by since and until, or by tenant, endpoint or event")
	}
	return p.Deliveries, nil
}
