package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

const writeSQL = `
INSERT INTO audit_log (shard, id, tenant_id, action, object_kind, object_id, actor, actor_key, actor_name, address, details)
SELECT e.shard, e.id, nullif(e.tenant, 0), e.action, e.kind, e.object, @actor::text::audit_actor, nullif(@key::bigint, 0), @name::text,
    nullif(@address::text, '')::inet, e.details::json
FROM unnest(@shards::smallint[], @ids::bigint[], @tenants::bigint[], @actions::text[], @kinds::text[], @objects::bigint[],
    @details::text[]) AS e (shard, id, tenant, action, kind, object, details)`

// sender sends statements of a transaction.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Write writes entries of what the context's actor does, in the transaction of that.
func Write(ctx context.Context, tx sender, newID func() int64, entries ...Entry) error {
	b := &pgx.Batch{}
	Queue(b, ActorOf(ctx), newID, entries...)
	if b.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("write to the audit log: %w", err)
	}
	return nil
}

// Queue queues one statement that writes entries, none if there are none. newID gives an entry the number of its id.
func Queue(b *pgx.Batch, by Actor, newID func() int64, entries ...Entry) {
	if len(entries) == 0 {
		return
	}
	var shards []int16
	var ids, tenants, objects []int64
	var actions, kinds, details []string
	for _, e := range entries {
		tenant := int64(0)
		if e.Tenant != nil {
			tenant = e.Tenant.N
		}
		shards, ids, tenants = append(shards, e.Object.ID.Shard), append(ids, newID()), append(tenants, tenant)
		objects, actions = append(objects, e.Object.ID.N), append(actions, string(e.Action))
		kinds, details = append(kinds, string(e.Object.Kind)), append(details, e.Details.json())
	}
	address := ""
	if by.From.IsValid() {
		address = by.From.WithZone("").String()
	}
	b.Queue(writeSQL, pgx.StrictNamedArgs{
		"shards": shards, "ids": ids, "tenants": tenants, "actions": actions, "kinds": kinds, "objects": objects,
		"details": details, "actor": string(by.Kind), "key": by.Key.N, "name": storable(by.Name), "address": address,
	})
}

// json spells the details. One that cannot be spelled does not keep anybody from acting.
func (d Details) json() string {
	if len(d) == 0 {
		return "{}"
	}
	b, err := json.Marshal(d)
	if err != nil {
		return `{"details":"cannot be shown"}`
	}
	return string(b)
}

// storable makes a name fit for its column: that of a user of the machine may be any bytes.
func storable(name string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(name, "\x00", "\uFFFD"), "\uFFFD")
}
