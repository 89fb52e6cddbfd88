package alert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pulse"
)

// lookEvery is the pause between two looks for notices.
const lookEvery = 2 * time.Second

// Run sends notices until ctx ends. Every process runs one, whatever else it does: that nobody keeps house any more, or that
// nobody delivers, is what alerts have to tell of. Side by side they do not get in each other's way.
func (s *Sender) Run(ctx context.Context) error {
	pulse.Again(ctx, lookEvery, s.runOnce, func(err error) { s.log.Warn().Err(err).Msg("alert.sending_failed") })
	return nil
}

// runOnce sends what is due: notices, and the digest.
func (s *Sender) runOnce(ctx context.Context) error {
	_, err := s.SendDue(ctx)
	return errors.Join(err, s.sendDigest(ctx), s.tellOldest(ctx))
}

// measureEvery is how often the age of the oldest notice is told.
const measureEvery = 10 * time.Second

// Through alert_notices_unsent. Ids tell when they were made.
const oldestSQL = `SELECT coalesce(min(id), 0) FROM alert_notices WHERE sent_at IS NULL AND given_up_at IS NULL`

func (s *Sender) tellOldest(ctx context.Context) error {
	now := s.now()
	if now.Sub(s.looked).Abs() < measureEvery {
		return nil
	}
	s.looked = now
	var oldest int64
	if err := s.db.QueryRow(ctx, oldestSQL).Scan(&oldest); err != nil {
		return pg.Fault(fmt.Errorf("look for the oldest notice: %w", err))
	}
	age := time.Duration(0)
	if oldest != 0 {
		age = max(now.Sub(id.TimeOf(oldest)), 0)
	}
	s.deps.Oldest(age)
	return nil
}
