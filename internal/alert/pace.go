package alert

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// Throttle is how many messages a channel gets in a time before what comes is gathered into one a minute. Zero: 20 in 10 minutes.
type Throttle struct {
	Messages int
	Per      time.Duration
}

const (
	// gathers is how long a channel is quiet after a message about many: an outage does not hit all of its endpoints at once.
	gathers = 30 * time.Second
	// throttledFor is how long it is quiet when it has had as many as it may.
	throttledFor = time.Minute
)

// pace is how much a road was told lately.
type pace struct {
	WindowAt   time.Time
	Told       int
	QuietUntil time.Time
}

// in is the pace as it is at a time: a window that is over has nothing in it.
func (p pace) in(now time.Time, per time.Duration) pace {
	if now.Sub(p.WindowAt) >= per || now.Before(p.WindowAt) { // the clock may have been set back
		p.WindowAt, p.Told = now, 0
	}
	if p.QuietUntil.After(now.Add(per)) {
		p.QuietUntil = now
	}
	return p
}

// channel decides how a channel gets n pieces of news: one by one, all in one message, or not before a time.
func (p pace) channel(now time.Time, t Throttle, n int) (_ pace, oneByOne bool, wait time.Time) {
	p = p.in(now, t.Per)
	switch {
	case now.Before(p.QuietUntil):
		return p, false, p.QuietUntil
	case n <= singly && p.Told+n <= t.Messages:
		p.Told += n
		return p, true, time.Time{}
	}
	p.Told++
	p.QuietUntil = now.Add(gathers)
	if p.Told > t.Messages {
		p.QuietUntil = now.Add(throttledFor)
	}
	return p, false, time.Time{}
}

const (
	mailsEvery = time.Hour
	// urgentMails is how many mails about what is switched off, or on again, a tenant gets in mailsEvery without waiting.
	urgentMails = 6
)

// mail decides whether a tenant gets a mail now: zero, or not before a time.
func (p pace) mail(now time.Time, urgent bool) (_ pace, wait time.Time) {
	p = p.in(now, mailsEvery)
	if now.Before(p.QuietUntil) && (!urgent || p.Told >= urgentMails) {
		return p, p.QuietUntil
	}
	p.Told++
	p.QuietUntil = now.Add(mailsEvery)
	return p, time.Time{}
}

// By the primary key. The row is there and locked after the first statement, whoever else asks for it at the same time.
const (
	takePaceSQL = `
INSERT INTO alert_pace AS p (shard, tenant_id, road, window_at, told, quiet_until)
VALUES (@shard, @tenant, @road, @now, 0, @now)
ON CONFLICT (shard, tenant_id, road) DO UPDATE SET told = p.told
RETURNING p.window_at, p.told, p.quiet_until`

	putPaceSQL = `
UPDATE alert_pace SET window_at = @window, told = @told, quiet_until = @quiet
WHERE shard = @shard AND tenant_id = @tenant AND road = @road`
)

// spend asks a road's pace what may be told and writes down that it is. That a send fails afterwards takes nothing back.
func (s *Sender) spend(ctx context.Context, shard int16, tenant int64, road string, now time.Time, decide func(pace) pace) error {
	err := pg.InTx(ctx, s.db, func(tx pgx.Tx) error {
		key := pgx.StrictNamedArgs{"shard": shard, "tenant": tenant, "road": road, "now": now}
		rows, err := tx.Query(ctx, takePaceSQL, key)
		if err != nil {
			return err //nolint:wrapcheck // below
		}
		was, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[pace])
		if err != nil {
			return err //nolint:wrapcheck // below
		}
		is := decide(was)
		if is == was {
			return nil
		}
		_, err = tx.Exec(ctx, putPaceSQL, pgx.StrictNamedArgs{
			"shard": shard, "tenant": tenant, "road": road, "window": is.WindowAt, "told": is.Told, "quiet": is.QuietUntil,
		})
		return err //nolint:wrapcheck // below
	})
	if err != nil {
		return pg.Fault(fmt.Errorf("ask how much was told lately: %w", err))
	}
	return nil
}
