package pulse

import (
	"context"
	"time"
)

// Again does something at once and then every so often, until ctx ends. Of failures in a row it tells the first: what comes round
// every few seconds need not say each time that the database is still away.
func Again(ctx context.Context, every time.Duration, act func(context.Context) error, failed func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for failing := false; ; {
		err := act(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			failed(err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
