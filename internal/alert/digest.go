package alert

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/robfig/cron/v3"

	"github.com/postrider/postrider/internal/pg"
)

// schedule reads a cron expression of a time zone, unless it names one itself.
func schedule(expression, zone string) (cron.Schedule, error) {
	if zone != "" && !strings.HasPrefix(expression, "CRON_TZ=") && !strings.HasPrefix(expression, "TZ=") {
		expression = "CRON_TZ=" + zone + " " + expression
	}
	s, err := cron.ParseStandard(expression)
	if err != nil {
		return nil, errors.New("not a cron expression")
	}
	return s, nil
}

const (
	// digestLease is how long a digest that is being sent is out of others' reach.
	digestLease = time.Minute
	// digestTries is how often one is tried: with the delays of retryDelay, about an hour and a half. Then the next one tells it all.
	digestTries = 8
)

// By the primary key, of one row. Where the configuration names another time, the next digest is at that one.
const (
	nextDigestSQL = `SELECT schedule, next_at FROM alert_digest WHERE shard = 0`

	beginDigestSQL = `
INSERT INTO alert_digest AS d (shard, schedule, since, next_at) VALUES (0, @schedule, @now, @next)
ON CONFLICT (shard) DO UPDATE SET schedule = @schedule, next_at = @next, tries = 0, leased_until = NULL, sent_to = '{}'
WHERE d.schedule <> @schedule`

	claimDigestSQL = `
UPDATE alert_digest SET leased_until = @until, tries = tries + 1
WHERE shard = 0 AND schedule = @schedule AND next_at <= @now AND (leased_until IS NULL OR leased_until <= @now)
RETURNING since, next_at, tries, sent_to`

	endDigestSQL = `
UPDATE alert_digest SET since = @since, next_at = @next, leased_until = NULL, tries = 0, sent_to = '{}'
WHERE shard = 0 AND next_at = @this`

	delayDigestSQL = `UPDATE alert_digest SET leased_until = @until, sent_to = @sent_to WHERE shard = 0 AND next_at = @this`
)

// digest is one that is due.
type digest struct {
	Since  time.Time
	NextAt time.Time
	Tries  int
	SentTo []string
}

// sendDigest sends the digest if it is due, as one process of many does. Every channel is told once, as far as it says so.
func (s *Sender) sendDigest(ctx context.Context) error {
	if s.digest == nil {
		return nil
	}
	now, mark := s.now(), s.config.Digest+" "+s.config.Timezone
	if due, err := s.digestDue(ctx, now, mark); err != nil || !due {
		return err
	}
	rows, err := s.db.Query(ctx, claimDigestSQL, pgx.StrictNamedArgs{"schedule": mark, "now": now, "until": now.Add(digestLease)})
	if err != nil {
		return pg.Fault(fmt.Errorf("claim the digest: %w", err))
	}
	d, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[digest])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return pg.Fault(fmt.Errorf("claim the digest: %w", err))
	}
	sum, err := s.sum(ctx, d.Since, d.NextAt)
	if err != nil {
		return err
	}
	failed := s.tellDigest(ctx, &d, sum)
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if failed != nil && d.Tries < digestTries {
		until := now.Add(retryDelay(d.Tries))
		s.log.Warn().Err(failed).Int("try", d.Tries).Time("next_try", until).Msg("alert.digest_failed")
		_, err = s.db.Exec(finish, delayDigestSQL, pgx.StrictNamedArgs{"until": until, "sent_to": d.SentTo, "this": d.NextAt})
		if err != nil {
			return pg.Fault(fmt.Errorf("put the digest off: %w", err))
		}
		return nil
	}
	since := d.NextAt
	if failed != nil {
		since = d.Since // the next one tells of this time as well
		s.log.Warn().Err(failed).Int("try", d.Tries).Msg("alert.digest_given_up")
	} else {
		s.log.Info().Time("since", d.Since).Int("open", sum.Open).Int("opened", sum.Opened).Int("resolved", sum.Resolved).Msg("alert.digest")
	}
	_, err = s.db.Exec(finish, endDigestSQL, pgx.StrictNamedArgs{"since": since, "next": s.digest.Next(now), "this": d.NextAt})
	if err != nil {
		return pg.Fault(fmt.Errorf("write down that the digest was sent: %w", err))
	}
	return nil
}

// digestDue looks whether the digest is due, and says when the next one is where that is not known.
func (s *Sender) digestDue(ctx context.Context, now time.Time, mark string) (bool, error) {
	var is string
	var next time.Time
	err := s.db.QueryRow(ctx, nextDigestSQL).Scan(&is, &next)
	if err == nil && is == mark {
		return !now.Before(next), nil
	}
	if err == nil || errors.Is(err, pgx.ErrNoRows) {
		_, err = s.db.Exec(ctx, beginDigestSQL, pgx.StrictNamedArgs{"schedule": mark, "now": now, "next": s.digest.Next(now)})
	}
	if err != nil {
		return false, pg.Fault(fmt.Errorf("see when the digest is due: %w", err))
	}
	return false, nil
}

// tellDigest sends it to the channels that do not have it yet. Services that keep incidents get none: it is not one. Where there is
// nothing to say, nothing is sent. It goes to all at the same time: one after the other, those that hang would outlast the digest's
// lease, and hold up notices. What is on its way at a stop is let get there, as in a round.
func (s *Sender) tellDigest(ctx context.Context, d *digest, sum summary) error {
	if sum.nothing() {
		return nil
	}
	on, cancel := lingering(ctx, stopGrace)
	defer cancel()
	m := s.digestMessage(*d, sum)
	failed := make([]error, len(s.channels))
	told := make([]bool, len(s.channels))
	var all sync.WaitGroup
	for i, c := range s.channels {
		if c.name == "pagerduty" || c.name == "opsgenie" || slices.Contains(d.SentTo, c.fingerprint) {
			continue
		}
		all.Go(func() {
			failed[i] = c.send(on, m)
			told[i] = failed[i] == nil
		})
	}
	all.Wait()
	for i, c := range s.channels {
		if told[i] {
			d.SentTo = append(d.SentTo, c.fingerprint)
		}
	}
	return errors.Join(failed...)
}

// summary is what a digest tells.
type summary struct {
	Open, Acknowledged, Opened, Resolved int
	top                                  []topEndpoint
}

func (s summary) nothing() bool { return s.Open+s.Acknowledged+s.Opened+s.Resolved == 0 }

// topEndpoint is an endpoint with many failures.
type topEndpoint struct {
	TenantName, URL, Kind, State string
	Count                        int
}

// All buckets and all of alerts, which keeps what was resolved for 90 days: it is read once a day or so, by one process.
const (
	summarySQL = `
SELECT count(*) FILTER (WHERE a.state = 'open') AS open, count(*) FILTER (WHERE a.state = 'acknowledged') AS acknowledged,
    count(*) FILTER (WHERE a.opened_at >= @since AND a.opened_at < @until) AS opened,
    count(*) FILTER (WHERE a.resolved_at >= @since AND a.resolved_at < @until) AS resolved
FROM (SELECT state, opened_at, resolved_at FROM alerts UNION ALL SELECT state, opened_at, resolved_at FROM service_alerts) a
WHERE a.state <> 'resolved' OR a.resolved_at >= @since`

	topSQL = `
SELECT t.name AS tenant_name, coalesce(e.url, '') AS url, a.kind::text AS kind, a.state::text AS state, a.count
FROM alerts a JOIN tenants t ON t.shard = a.shard AND t.id = a.tenant_id JOIN endpoints e ON e.shard = a.shard AND e.id = a.endpoint_id
WHERE a.state <> 'resolved' OR a.resolved_at >= @since
ORDER BY a.count DESC, a.id LIMIT 10`
)

func (s *Sender) sum(ctx context.Context, since, until time.Time) (summary, error) {
	rows, err := s.db.Query(ctx, summarySQL, pgx.StrictNamedArgs{"since": since, "until": until})
	if err != nil {
		return summary{}, pg.Fault(fmt.Errorf("sum up the alerts: %w", err))
	}
	var sum summary
	if _, err = pgx.ForEachRow(rows, []any{&sum.Open, &sum.Acknowledged, &sum.Opened, &sum.Resolved}, func() error { return nil }); err != nil {
		return summary{}, pg.Fault(fmt.Errorf("sum up the alerts: %w", err))
	}
	if rows, err = s.db.Query(ctx, topSQL, pgx.StrictNamedArgs{"since": since}); err == nil {
		sum.top, err = pgx.CollectRows(rows, pgx.RowToStructByName[topEndpoint])
	}
	if err != nil {
		return summary{}, pg.Fault(fmt.Errorf("find the endpoints with most failures: %w", err))
	}
	return sum, nil
}

func (s *Sender) digestMessage(d digest, sum summary) message {
	m := message{event: "digest", link: s.link(""), title: fmt.Sprintf("Postrider digest: %d open, %d opened, %d resolved", sum.Open+sum.Acknowledged, sum.Opened, sum.Resolved)}
	lines := []string{m.title, fmt.Sprintf("From %s to %s. Of what is open, %d %s looked after.", d.Since.UTC().Format(stamp),
		d.NextAt.UTC().Format(stamp), sum.Acknowledged, map[bool]string{true: "is", false: "are"}[sum.Acknowledged == 1])}
	for _, t := range sum.top {
		lines = append(lines, fmt.Sprintf("- %d× %s: %s, %s (%s)", t.Count, plain(t.TenantName), plain(place(t.URL)), t.Kind, t.State))
	}
	if m.link != "" {
		lines = append(lines, m.link)
	}
	m.text = strings.Join(lines, "\n")
	return m
}
