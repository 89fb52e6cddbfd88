package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// Reader reads what tallies have written.
type Reader struct {
	db  *pgxpool.Pool
	now func() time.Time
}

// NewReader makes a reader. now is the database's clock.
func NewReader(db *pgxpool.Pool, now func() time.Time) *Reader { return &Reader{db: db, now: now} }

// Now is the moment that figures are read until.
func (r *Reader) Now() time.Time { return r.now() }

// Index traffic_pkey: one range.
const trafficSQL = `
SELECT t.starts, t.outcome::text, t.attempts, t.finished, t.latency_from, t.latency
  FROM traffic t WHERE t.minutes = @minutes::smallint AND t.starts >= @since::timestamptz AND t.starts < @until::timestamptz`

// Overview gives the figures over all tenants since a time, step by step; a step of 0 is one that suits the time. It looks no
// further than the hour, or in the last two days than the quarter of an hour, or in the last five hours than the minute, and since
// and step are rounded down and up to that.
func (r *Reader) Overview(ctx context.Context, since time.Time, step time.Duration) (Series, error) {
	now := r.now()
	grain := grainOf(now.Sub(since), step)
	s := newSeries(since, now, step, grain)
	rows, err := r.db.Query(ctx, trafficSQL, pgx.StrictNamedArgs{
		"minutes": int16(grain / minute), "since": s.Since, "until": s.end(), //nolint:gosec // 60 at most
	})
	if err != nil {
		return Series{}, pg.Fault(fmt.Errorf("read figures: %w", err))
	}
	var c counted
	_, err = pgx.ForEachRow(rows, c.fields(), func() error { return s.add(&c) })
	if err != nil {
		return Series{}, pg.Fault(fmt.Errorf("read figures: %w", err))
	}
	return s.sum(), nil
}

// grainOf gives how finely to look at a span: as few rows as do for its points.
func grainOf(span, step time.Duration) time.Duration {
	switch {
	case span > KeepFine-hour || step > 0 && step%hour == 0: // an hour for the oldest to be dropped in
		return hour
	case span > nicePoints*minute || step > 0 && step%quarter == 0:
		return quarter
	}
	return minute
}

// Index endpoint_traffic_pkey, a range for each endpoint. OFFSET keeps each look-up by itself, so that it can only go by the key,
// also where the statement was planned while the table was small.
const endpointsSQL = `
SELECT e.shard, e.id, t.*
  FROM unnest(@shards::smallint[], @ids::bigint[]) AS e (shard, id), LATERAL (
    SELECT t.starts, t.outcome::text, t.attempts, t.finished, t.latency_from, t.latency
      FROM endpoint_traffic t
     WHERE t.shard = e.shard AND t.endpoint_id = e.id AND t.starts >= @since::timestamptz AND t.starts < @until::timestamptz
    OFFSET 0) t`

// Endpoint gives the figures of one endpoint since a time, step by step; a step of 0 is one that suits the time. It looks no
// further than the quarter of an hour, and since and step are rounded down and up to that.
func (r *Reader) Endpoint(ctx context.Context, endpoint id.ID, since time.Time, step time.Duration) (Series, error) {
	found, err := r.endpoints(ctx, []id.ID{endpoint}, since, step)
	return found[endpoint], err
}

// sparkPoints is how many points the series of an endpoint in a list has at most.
const sparkPoints = 48

// EndpointsHealth gives the figures of each of several endpoints since a time, as Endpoint does, with few points.
func (r *Reader) EndpointsHealth(ctx context.Context, endpoints []id.ID, since time.Time) (map[id.ID]Series, error) {
	return r.endpoints(ctx, endpoints, since, stepFor(r.now().Sub(since), quarter, sparkPoints))
}

func (r *Reader) endpoints(ctx context.Context, endpoints []id.ID, since time.Time, step time.Duration) (map[id.ID]Series, error) {
	now := r.now()
	all := make(map[id.ID]*gathered, len(endpoints))
	shards, numbers := make([]int16, 0, len(endpoints)), make([]int64, 0, len(endpoints))
	span := newSeries(since, now, step, quarter)
	for _, e := range endpoints {
		if all[e] == nil {
			all[e] = newSeries(since, now, step, quarter)
			shards, numbers = append(shards, e.Shard), append(numbers, e.N)
		}
	}
	rows, err := r.db.Query(ctx, endpointsSQL, pgx.StrictNamedArgs{
		"shards": shards, "ids": numbers, "since": span.Since, "until": span.end(),
	})
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read endpoints' figures: %w", err))
	}
	var of id.ID
	var c counted
	_, err = pgx.ForEachRow(rows, append([]any{&of.Shard, &of.N}, c.fields()...), func() error { return all[of].add(&c) })
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read endpoints' figures: %w", err))
	}
	out := make(map[id.ID]Series, len(all))
	for e, s := range all {
		out[e] = s.sum()
	}
	return out, nil
}

// counted is a row of either table.
type counted struct {
	starts             time.Time
	outcome            string
	attempts, finished int32
	from               int16
	latency            pgtype.DriverBytes // good until the next row
}

func (c *counted) fields() []any {
	return []any{&c.starts, &c.outcome, &c.attempts, &c.finished, &c.from, &c.latency}
}

// add puts a row into the point that it lies in.
func (g *gathered) add(c *counted) error {
	outcome, err := dispatcher.ParseOutcome(c.outcome)
	if err != nil {
		return err //nolint:wrapcheck // says it all
	}
	i := int(c.starts.Sub(g.begins) / g.Step)
	if i < 0 || i >= len(g.Points) {
		return nil
	}
	g.Points[i].Attempts[outcome] += int64(c.attempts)
	g.Points[i].Finished[outcome] += int64(c.finished)
	g.spreads[i].add(int(c.from), c.latency)
	return nil
}
