package dispatcher

import (
	"context"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// SearchWith is Search with a budget, a size of the first window and a number of windows to a page.
func (k *Desk) SearchWith(
	ctx context.Context, f Filter, limit int, before id.ID, budget, first time.Duration, windows int,
) (Page, error) {
	return k.search(ctx, f, limit, before, allowance{budget: budget, first: first, most: pg.SearchPatience, windows: windows})
}
