package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
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

// One walk back in time over all buckets: through the index of what is asked for, audit_log_by_action, _by_actor, _by_key,
// _by_tenant or _by_object, or else through audit_log_by_id, whose key is spelled id + 0.
const (
	listHead = `
SELECT l.shard, l.id, l.tenant_id, l.action, l.object_kind, l.object_id, l.actor::text, l.actor_key, l.actor_name,
    l.address, l.details::text
FROM audit_log l
WHERE $id >= @since AND $id < @until AND $id <= @before AND (l.id < @before OR l.shard < @before_shard)`
	listTail = `
ORDER BY $id DESC, l.shard DESC LIMIT @limit`
)

// List gives the newest entries that fit, made before the one named (zero: from the newest).
func (l *Log) List(ctx context.Context, f Filter, limit int, before id.ID) ([]Record, error) {
	if err := pg.CheckText("/actor", f.Actor); err != nil {
		return nil, err //nolint:wrapcheck // a fault of the caller's
	}
	sql, args := f.sql(limit, before)
	rows, err := l.db.Query(ctx, sql, args)
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read the audit log: %w", err))
	}
	records, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read the audit log: %w", err))
	}
	return records, nil
}

func (f Filter) sql(limit int, before id.ID) (string, pgx.StrictNamedArgs) {
	args := pgx.StrictNamedArgs{
		"since": int64(0), "until": int64(math.MaxInt64), "limit": limit, "before": before.N, "before_shard": before.Shard,
	}
	if before.IsZero() {
		args["before"], args["before_shard"] = int64(math.MaxInt64), int16(0)
	}
	if !f.Since.IsZero() {
		args["since"] = id.Floor(f.Since)
	}
	if !f.Until.IsZero() {
		args["until"] = id.Floor(f.Until)
	}
	conditions, ordered := "", "l.id"
	add := func(condition, name string, value any) {
		conditions += condition
		args[name] = value
	}
	if f.Tenant != nil { // in its own bucket, and of API keys that are bound to it in 0
		add(" AND l.tenant_id = @tenant", "tenant", f.Tenant.N)
	}
	if f.Object != nil {
		add(" AND l.shard = @shard AND l.object_id = @object AND l.object_kind = @kind", "object", f.Object.ID.N)
		args["shard"], args["kind"] = f.Object.ID.Shard, string(f.Object.Kind)
	}
	if f.Action != "" {
		add(" AND l.action = @action", "action", string(f.Action))
	}
	if f.Key != nil {
		add(" AND l.actor_key = @key", "key", f.Key.N)
	}
	if f.Actor != "" && !isKind(f.Actor) {
		add(" AND l.actor_name = @actor", "actor", f.Actor)
	}
	if conditions == "" {
		ordered = "(l.id + 0)"
	}
	if f.Actor != "" && isKind(f.Actor) { // no index: each kind is frequent, or else there is little
		add(" AND (l.actor_name = @actor OR l.actor::text = @actor)", "actor", f.Actor)
	}
	return strings.NewReplacer("$id", ordered).Replace(listHead + conditions + listTail), args
}

func isKind(actor string) bool {
	return slices.Contains([]ActorKind{ByKey, ByUser, ByPortal, ByCLI, BySystem}, ActorKind(actor))
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
