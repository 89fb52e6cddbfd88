package alert

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
)

// Finding is what is to be told about one endpoint, gathered over a batch of attempts.
type Finding struct {
	Endpoint int64
	Tenant   int64
	Kind     Kind
	Count    int       // how many attempts raised it; below 1 counts as 1
	Detail   string    // plain words for the owner; no secret and no URL's query
	Delivery int64     // the delivery it was last seen on; 0: none
	At       time.Time // when it was last seen
}

// One statement opens alerts, adds to those that are not resolved, and writes the notices.
//
// What happened to a row must be read from the row itself, because the version that ON CONFLICT updates may be newer
// than the statement's snapshot (a concurrent transaction opened or escalated it), so neither a join nor a subquery can
// be trusted for "what was it before". Each finding therefore brings an id of its own, and last_notice_id keeps the id
// of the finding that was last worth a notice: the new row's on insert, a later one's only where the kind becomes
// graver, decided in SET under the row's lock. (That a failing delivery has failed for good is news to the operator's
// tenant, and to nobody else: story.news.) Whoever finds its own id there, and nobody else, writes the notice.
//
// The conflict is found through alerts_open_key. Rows go in by endpoint, so that two batches lock in one order.
const raiseSQL = `
WITH raised AS (
    INSERT INTO alerts AS a (shard, id, tenant_id, endpoint_id, kind, state, count, detail, last_delivery_id,
        last_notice_id, opened_at, last_at)
    SELECT @shard, u.id, u.tenant, u.endpoint, u.kind::alert_kind, 'open', u.count, u.detail, nullif(u.delivery, 0),
        u.id, @now, u.at
    FROM unnest(@ids::bigint[], @tenants::bigint[], @endpoints::bigint[], @kinds::text[], @counts::integer[],
        @details::text[], @deliveries::bigint[], @ats::timestamptz[])
        u(id, tenant, endpoint, kind, count, detail, delivery, at)
    ORDER BY u.endpoint
    ON CONFLICT (shard, endpoint_id) WHERE state <> 'resolved' DO UPDATE SET
        count = least(a.count::bigint + excluded.count, 2147483647),
        kind = greatest(a.kind, excluded.kind),
        detail = CASE WHEN excluded.kind >= a.kind THEN excluded.detail ELSE a.detail END,
        last_notice_id = CASE WHEN excluded.kind > a.kind THEN excluded.last_notice_id ELSE a.last_notice_id END,
        last_delivery_id = coalesce(excluded.last_delivery_id, a.last_delivery_id),
        last_at = greatest(a.last_at, excluded.last_at)
    RETURNING a.id, a.last_notice_id, a.kind, a.detail
)
INSERT INTO alert_notices (shard, id, alert_id, kind, about, detail, next_try_at)
SELECT @shard, r.last_notice_id, r.id,
    CASE WHEN r.id = r.last_notice_id THEN 'opened'::notice_kind ELSE 'escalated' END, r.kind, r.detail, @now
FROM raised r
WHERE r.last_notice_id = ANY (@ids)`

// QueueRaise queues one statement that raises the findings about endpoints of one bucket, or nothing when there are
// none. Several findings about one endpoint are made one first. Queue it after the endpoints' own rows are written, so
// that all transactions lock endpoints before alerts.
func QueueRaise(b *pgx.Batch, shard int16, fs []Finding, newID func() int64, now time.Time) {
	fs = gather(fs)
	if len(fs) == 0 {
		return
	}
	var (
		ids, tenants, endpoints, deliveries []int64
		kinds, details                      []string
		counts                              []int32
		ats                                 []time.Time
	)
	for _, f := range fs {
		ids = append(ids, newID())
		tenants = append(tenants, f.Tenant)
		endpoints = append(endpoints, f.Endpoint)
		kinds = append(kinds, f.Kind.String())
		counts = append(counts, int32(min(max(f.Count, 1), 1<<30)))
		details = append(details, plain(f.Detail))
		deliveries = append(deliveries, f.Delivery)
		ats = append(ats, f.At)
	}
	b.Queue(raiseSQL, pgx.StrictNamedArgs{
		"shard": shard, "ids": ids, "tenants": tenants, "endpoints": endpoints, "kinds": kinds, "counts": counts,
		"details": details, "deliveries": deliveries, "ats": ats, "now": now,
	})
}

// gather makes one finding per endpoint, in the endpoints' order: counts add up, the gravest kind wins and brings its
// words (the newest of the gravest), and the newest delivery and time stay.
func gather(fs []Finding) []Finding {
	sorted := slices.Clone(fs)
	slices.SortStableFunc(sorted, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Endpoint, b.Endpoint), a.At.Compare(b.At))
	})
	out := sorted[:0]
	for _, f := range sorted {
		f.Count = max(f.Count, 1)
		if len(out) == 0 || out[len(out)-1].Endpoint != f.Endpoint {
			out = append(out, f)
			continue
		}
		last := &out[len(out)-1]
		last.Count += f.Count
		last.At = f.At
		if f.Delivery != 0 {
			last.Delivery = f.Delivery
		}
		if f.Kind >= last.Kind {
			last.Kind, last.Detail = f.Kind, f.Detail
		}
	}
	return out
}

// maxDetail is how many bytes of a detail are kept: enough for a sentence with a URL, little enough for a chat message.
const maxDetail = 1000

// plain makes text that a database, a log line and a chat message all take: valid UTF-8 on one line, no control
// characters, bounded. Parts of it may come from a receiver (a Location, an error).
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > maxDetail {
		s = strings.ToValidUTF8(s[:maxDetail], "") + "…"
	}
	return strings.TrimSpace(s)
}
