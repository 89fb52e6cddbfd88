package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// Log is where people read what was written.
type Log struct{ db *pgxpool.Pool }

// NewLog makes one.
func NewLog(db *pgxpool.Pool) *Log { return &Log{db} }

// Record is an entry as people see it.
type Record struct {
	ID      id.ID
	At      time.Time
	Actor   Actor
	Action  Action
	Object  Thing
	Tenant  *id.ID
	Details json.RawMessage
}

// Filter is what entries are looked for by. The zero value of a field asks for nothing.
type Filter struct {
	Tenant       *id.ID
	Object       *Thing
	Action       Action
	Key          *id.ID // the acting key
	Actor        string // a kind of actor, or an actor's name
	Since, Until time.Time
}

// The newest of each bucket from the end of the primary key's range, or through audit_log_by_object, then the newest of
// those.
const listSQL = `
SELECT a.shard, a.id, a.tenant_id, a.action, a.object_kind, a.object_id, a.actor::text, a.actor_key, a.actor_name,
    a.address, a.details::text
FROM unnest(@shards::smallint[]) b(shard) CROSS JOIN LATERAL (
    SELECT * FROM audit_log l
    WHERE l.shard = b.shard AND l.id < @before::bigint + CASE WHEN b.shard < @before_shard THEN 1 ELSE 0 END
        AND l.id >= @since AND l.id < @until
        AND (@tenant::bigint = 0 OR l.tenant_id = @tenant)
        AND (@object::bigint = 0 OR l.object_id = @object AND l.object_kind = @kind)
        AND (@action = '' OR l.action = @action)
        AND (@key::bigint = 0 OR l.actor_key = @key)
        AND (@actor = '' OR l.actor_name = @actor OR l.actor::text = @actor)
    ORDER BY l.id DESC LIMIT @limit) a
ORDER BY a.id DESC, a.shard DESC LIMIT @limit`

// List gives the newest entries that fit, made before the one named (zero: from the newest).
func (l *Log) List(ctx context.Context, f Filter, limit int, before id.ID) ([]Record, error) {
	rows, err := l.db.Query(ctx, listSQL, f.args(limit, before))
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read the audit log: %w", err))
	}
	records, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read the audit log: %w", err))
	}
	return records, nil
}

func (f Filter) args(limit int, before id.ID) pgx.StrictNamedArgs {
	args := pgx.StrictNamedArgs{
		"shards": id.AllBuckets(), "tenant": int64(0), "object": int64(0), "kind": "", "action": string(f.Action),
		"key": int64(0), "actor": f.Actor, "since": int64(0), "until": int64(math.MaxInt64), "limit": limit,
		"before": before.N, "before_shard": before.Shard,
	}
	if before.IsZero() {
		args["before"], args["before_shard"] = int64(math.MaxInt64), int16(0)
	}
	if f.Tenant != nil {
		// Its own bucket, and that of API keys, of which some are bound to it.
		args["tenant"], args["shards"] = f.Tenant.N, []int16{0, f.Tenant.Shard}
		if f.Tenant.Shard == 0 {
			args["shards"] = []int16{0}
		}
	}
	if f.Object != nil {
		args["object"], args["kind"], args["shards"] = f.Object.ID.N, string(f.Object.Kind), []int16{f.Object.ID.Shard}
	}
	if f.Key != nil {
		args["key"] = f.Key.N
	}
	if !f.Since.IsZero() {
		args["since"] = id.Floor(f.Since)
	}
	if !f.Until.IsZero() {
		args["until"] = id.Floor(f.Until)
	}
	return args
}

func scan(row pgx.CollectableRow) (Record, error) {
	var r Record
	var tenant, key *int64
	var kind, details string
	var from *netip.Addr
	err := row.Scan(&r.ID.Shard, &r.ID.N, &tenant, &r.Action, &kind, &r.Object.ID.N, &r.Actor.Kind, &key, &r.Actor.Name,
		&from, &details)
	if err != nil {
		return Record{}, fmt.Errorf("read an entry's row: %w", err)
	}
	r.At, r.Details = r.ID.Time(), json.RawMessage(details)
	r.Object.Kind, r.Object.ID.Shard = id.Kind(kind), r.ID.Shard
	if tenant != nil { // a key's entry lies in bucket 0, its tenant does not
		r.Tenant = &id.ID{Shard: id.Bucket(*tenant), N: *tenant}
	}
	if key != nil {
		r.Actor.Key.N = *key
	}
	if from != nil {
		r.Actor.From = *from
	}
	return r, nil
}

// dropBatch is how many are deleted in one commit: little enough that it is done in some ten milliseconds.
const dropBatch = 1000

// By the primary key. A row that another process is deleting is passed over.
const dropSQL = `
WITH old AS MATERIALIZED (
    SELECT l.id FROM audit_log l WHERE l.shard = @shard AND l.id < @below LIMIT @limit FOR UPDATE SKIP LOCKED
)
DELETE FROM audit_log l USING old WHERE l.shard = @shard AND l.id = old.id`

// DropOld deletes, in a bucket, what was written before a time, a thousand at a time, and says how many it was.
func (l *Log) DropOld(ctx context.Context, shard int16, before time.Time) (total int64, err error) {
	for {
		tag, err := l.db.Exec(ctx, dropSQL, pgx.StrictNamedArgs{"shard": shard, "below": id.Floor(before), "limit": dropBatch})
		if err != nil {
			return total, pg.Fault(fmt.Errorf("delete old entries of the audit log: %w", err))
		}
		total += tag.RowsAffected()
		if tag.RowsAffected() < dropBatch {
			return total, nil
		}
	}
}
