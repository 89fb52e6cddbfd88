package alert

import (
	"context"
	"time"
)

// lookEvery is the pause between two looks for notices.
const lookEvery = 2 * time.Second

// Run sends notices until ctx ends. Every process runs one, whatever else it does: that nobody keeps house any more, or that
// nobody delivers, is what alerts have to tell of. Side by side they do not get in each other's way.
func (s *Sender) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for failing := false; ; {
		_, err := s.SendDue(ctx)
		if err != nil && !failing && ctx.Err() == nil { // it looks every two seconds: once is enough
			s.log.Warn().Err(err).Msg("alert.sending_failed")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
