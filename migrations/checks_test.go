package migrations_test

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pgtest"
)

// row is columns by name, as JSON has them.
type row map[string]any

// with gives the row with other columns put over it.
func (r row) with(over row) row {
	out := maps.Clone(r)
	maps.Copy(out, over)
	return out
}

const at = "2026-11-30T09:00:00Z"

var (
	tenantRow = row{
		"shard": id.Bucket(1), "id": 1, "name": "Acme", "metadata": row{}, "created_at": at, "updated_at": at,
	}
	endpointRow = row{
		"shard": id.Bucket(1), "id": 2, "tenant_id": 1, "url": "https://example.com", "description": "",
		"event_types": []string{}, "header_names": []string{}, "scheme": "standard", "signature_header": "", "metadata": row{},
		"status": "enabled", "status_changed_at": at, "consecutive_failures": 0, "version": 1, "created_at": at, "updated_at": at,
		"ordering": "none", "kind": "push", "format": "raw", "trace_context": false,
	}
	pullRow    = endpointRow.with(row{"kind": "pull", "url": ""})
	closedPace = row{"shard": id.Bucket(1), "endpoint_id": 2, "breaker": "closed", "trips": 0}
	openPace   = closedPace.with(row{"breaker": "open", "trips": 1, "breaker_until": at, "breaker_changed_at": at})
	waiting    = row{
		"shard": 0, "id": 1, "tenant_id": 1, "event_id": 1, "endpoint_id": 1, "state": "pending", "attempts": 0, "failures": 0,
		"rescues": 0, "next_retry_at": at, "lane": 0,
	}
	scheduled = waiting.with(row{"state": "scheduled"})
	inFlight  = waiting.with(row{"state": "in_flight", "attempts": 1, "lease_owner": 7, "leased_until": at})
	succeeded = row{
		"shard": 0, "id": 1, "tenant_id": 1, "event_id": 1, "endpoint_id": 1, "state": "succeeded", "attempts": 1,
		"last_outcome": "succeeded", "last_status": 204, "finished_at": at,
	}
	failed    = succeeded.with(row{"state": "failed", "reason": "exhausted", "last_outcome": "timeout", "last_status": nil})
	cancelled = succeeded.with(row{"state": "cancelled", "reason": "by_user", "attempts": 0, "last_outcome": nil, "last_status": nil})
	openAlert = row{
		"shard": id.Bucket(1), "id": 3, "tenant_id": 1, "endpoint_id": 2, "kind": "delivery.failing", "state": "open", "count": 1,
		"detail": "", "opened_at": at, "last_at": at, "last_notice_id": 4,
	}
	serviceAlert = row{
		"shard": 0, "id": 3, "kind": "service.no_dispatcher", "state": "open", "count": 1, "detail": "", "opened_at": at, "last_at": at,
		"last_notice_id": 3,
	}
	auditRow = row{
		"shard": 0, "id": 1, "action": "api_key.created", "object_kind": "key", "object_id": 1, "actor": "cli", "actor_name": "root",
		"details": row{},
	}
	key = row{
		"id": 1, "name": "k", "hash": `\x` + strings.Repeat("00", 32), "hint": "pk_", "scopes": []string{"admin"}, "created_at": at,
	}
)

const (
	notNull     = "23502" // SQLSTATE not_null_violation (PostgreSQL's manual, appendix A)
	outOfBounds = "22003" // numeric_value_out_of_range
	noValue     = "22P02" // of an enum: invalid_text_representation
)

// Each row that cannot be, put into its table: refused names the constraint that keeps it out, or the SQLSTATE where a
// column's type does; "" is a row that can be.
func TestImpossibleRowsAreRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	for _, test := range []struct {
		table   string
		row     row
		refused string
	}{
		{"audit_log", auditRow, ""},
		{"audit_log", auditRow.with(row{"id": 2, "actor": "api_key", "actor_key": 7, "address": "2001:db8::1"}), ""},
		{"audit_log", auditRow.with(row{"actor": "api_key"}), "audit_log_actor_key"},
		{"audit_log", auditRow.with(row{"actor_key": 7}), "audit_log_actor_key"},
		{"audit_log", auditRow.with(row{"actor": "somebody"}), noValue},
		{"audit_log", auditRow.with(row{"action": "Deleted it"}), "audit_log_action_check"},
		{"audit_log", auditRow.with(row{"object_kind": "ep_"}), "audit_log_object_kind_check"},
		{"audit_log", auditRow.with(row{"object_id": 0}), "audit_log_object_id_check"},
		{"audit_log", auditRow.with(row{"details": nil}), notNull},

		{"deliveries", waiting, ""},
		{"deliveries", scheduled, ""},
		{"deliveries", inFlight, ""},
		{"deliveries", waiting.with(row{"attempts": 3, "failures": 2, "rescues": 1, "last_outcome": "retryable", "last_status": 503}), ""},
		{"deliveries", waiting.with(row{"attempts": 7}), ""}, // started afresh by hand
		{"deliveries", waiting.with(row{"state": "succeeded"}), "deliveries_unfinished"},
		{"deliveries", waiting.with(row{"state": "failed"}), "deliveries_unfinished"},
		{"deliveries", waiting.with(row{"state": "cancelled"}), "deliveries_unfinished"},
		{"deliveries", waiting.with(row{"state": "held"}), noValue}, // it is a fact about the endpoint
		{"deliveries", waiting.with(row{"state": nil}), notNull},
		{"deliveries", waiting.with(row{"lease_owner": 7, "leased_until": at}), "deliveries_lease"},
		{"deliveries", waiting.with(row{"lease_owner": 7}), "deliveries_lease"},
		{"deliveries", waiting.with(row{"leased_until": at}), "deliveries_lease"},
		{"deliveries", scheduled.with(row{"lease_owner": 7, "leased_until": at}), "deliveries_lease"},
		{"deliveries", inFlight.with(row{"lease_owner": nil, "leased_until": nil}), "deliveries_lease"},
		{"deliveries", inFlight.with(row{"lease_owner": nil}), "deliveries_lease"},
		{"deliveries", inFlight.with(row{"leased_until": nil}), "deliveries_lease"},
		{"deliveries", inFlight.with(row{"attempts": 0}), "deliveries_in_flight"},
		{"deliveries", scheduled.with(row{"attempts": 1}), "deliveries_scheduled"},
		{"deliveries", waiting.with(row{"attempts": 1, "failures": 2}), "deliveries_counts"},
		{"deliveries", waiting.with(row{"failures": -1}), "deliveries_counts"},
		{"deliveries", waiting.with(row{"rescues": -1}), "deliveries_counts"},
		{"deliveries", waiting.with(row{"attempts": -1}), "deliveries_counts"},
		{"deliveries", waiting.with(row{"attempts": 1 << 31}), outOfBounds},
		{"deliveries", waiting.with(row{"next_retry_at": nil}), notNull},
		{"deliveries", waiting.with(row{"last_outcome": "fine"}), noValue},
		{"deliveries", waiting.with(row{"lane": 1}), ""},
		{"deliveries", waiting.with(row{"lane": 2, "group_id": 7}), ""},
		{"deliveries", waiting.with(row{"lane": 2}), "deliveries_lane"},
		{"deliveries", waiting.with(row{"group_id": 7}), "deliveries_lane"},
		{"deliveries", waiting.with(row{"lane": 3}), "deliveries_lane"},
		{"deliveries", waiting.with(row{"lane": 4}), ""},
		{"deliveries", waiting.with(row{"lane": 4, "group_id": 7}), "deliveries_lane"},
		{"deliveries", waiting.with(row{"lane": 5}), "deliveries_lane"},
		{"deliveries", waiting.with(row{"lane": nil}), notNull},

		{"deliveries_finished", succeeded, ""},
		{"deliveries_finished", failed, ""},
		{"deliveries_finished", cancelled, ""},
		{"deliveries_finished", cancelled.with(row{"attempts": 2, "last_outcome": "retryable", "last_status": 503}), ""},
		{"deliveries_finished", succeeded.with(row{"state": "pending", "reason": "x"}), "deliveries_finished_state"},
		{"deliveries_finished", succeeded.with(row{"state": "scheduled", "reason": "x"}), "deliveries_finished_state"},
		{"deliveries_finished", succeeded.with(row{"state": "in_flight", "reason": "x"}), "deliveries_finished_state"},
		{"deliveries_finished", succeeded.with(row{"reason": "exhausted"}), "deliveries_finished_reason"},
		{"deliveries_finished", failed.with(row{"reason": nil}), "deliveries_finished_reason"},
		{"deliveries_finished", cancelled.with(row{"reason": nil}), "deliveries_finished_reason"},
		{"deliveries_finished", succeeded.with(row{"last_outcome": "timeout"}), "deliveries_finished_success"},
		{"deliveries_finished", succeeded.with(row{"finished_at": nil}), notNull},

		{"tenants", tenantRow, ""},
		{"tenants", tenantRow.with(row{"shard": id.Bucket(2), "id": 2}), ""},
		{"tenants", tenantRow.with(row{"shard": (id.Bucket(1) + 1) % id.Buckets}), "tenants_shard_is_the_hash"},
		{"tenants", tenantRow.with(row{"shard": 256}), "tenants_shard_check"},
		{"tenants", tenantRow.with(row{"uid": "a b"}), "tenants_uid_check"},
		{"tenants", tenantRow.with(row{"uid": ""}), "tenants_uid_check"},

		{"endpoints", endpointRow, ""},
		{"endpoints", pullRow, ""},
		{"endpoints", pullRow.with(row{"url": "https://example.com"}), "endpoints_kind"},
		{"endpoints", endpointRow.with(row{"url": ""}), "endpoints_kind"},
		{"endpoints", endpointRow.with(row{"kind": "throw"}), noValue},
		{"endpoints", endpointRow.with(row{"trace_context": true}), ""},
		{"endpoints", pullRow.with(row{"trace_context": true}), "endpoints_traced"},
		{"endpoints", pullRow.with(row{"ordering": "group"}), "endpoints_pull"},
		{"endpoints", pullRow.with(row{"max_in_flight": 1}), "endpoints_pull"},
		{"endpoints", pullRow.with(row{"timeout_ms": 1}), "endpoints_pull"},
		{"endpoints", pullRow.with(row{"rate_limit": 1, "rate_per_ms": 1}), "endpoints_pull"},
		{"endpoints", pullRow.with(row{"tls_ca": "PEM"}), "endpoints_pull"},
		{"endpoints", endpointRow.with(row{"status": "disabled", "status_reason": "x"}), ""},
		{"endpoints", endpointRow.with(row{"consecutive_failures": 2, "failing_since": at}), ""},
		{"endpoints", endpointRow.with(row{"headers_sealed": `\x00`, "headers_key_id": "00000000"}), ""},
		{"endpoints", endpointRow.with(row{"tls_ca": "x"}), ""},
		{"endpoints", endpointRow.with(row{"tls_certificate": "x", "tls_key_sealed": `\x00`, "tls_key_id": "00000000"}), ""},
		{"endpoints", endpointRow.with(row{"tls_certificate": "x"}), "endpoints_tls_key"},
		{"endpoints", endpointRow.with(row{"tls_key_sealed": `\x00`, "tls_key_id": "00000000"}), "endpoints_tls_key"},
		{"endpoints", endpointRow.with(row{"tls_ca": ""}), "endpoints_tls_ca_check"},
		{"endpoints", endpointRow.with(row{"deleted_at": at, "tls_ca": "x"}), "endpoints_tls_deleted"},
		{"endpoints", endpointRow.with(row{"deleted_at": at, "tls_certificate": "x", "tls_key_sealed": `\x00`, "tls_key_id": "00000000"}), "endpoints_tls_deleted"},
		{"endpoints", endpointRow.with(row{"status": "disabled"}), "endpoints_status_reason"},
		{"endpoints", endpointRow.with(row{"status": "dead"}), "endpoints_status_reason"},
		{"endpoints", endpointRow.with(row{"status_reason": "x"}), "endpoints_status_reason"},
		{"endpoints", endpointRow.with(row{"consecutive_failures": 2}), "endpoints_failing"},
		{"endpoints", endpointRow.with(row{"failing_since": at}), "endpoints_failing"},
		{"endpoints", endpointRow.with(row{"headers_sealed": `\x00`}), "endpoints_headers"},
		{"endpoints", endpointRow.with(row{"headers_key_id": "00000000"}), "endpoints_headers"},
		{"endpoints", endpointRow.with(row{"max_in_flight": 0}), "endpoints_max_in_flight_check"},
		{"endpoints", endpointRow.with(row{"timeout_ms": 0}), "endpoints_timeout_ms_check"},
		{"endpoints", endpointRow.with(row{"uid": "a/b"}), "endpoints_uid_check"},
		{"endpoints", endpointRow.with(row{"tenant_id": 5}), "endpoints_shard_tenant_id_fkey"},
		{"endpoints", endpointRow.with(row{"status": "paused"}), noValue},
		{"endpoints", endpointRow.with(row{"rate_limit": 100, "rate_per_ms": 1000, "ordering": "group"}), ""},
		{"endpoints", endpointRow.with(row{"rate_limit": 100}), "endpoints_rate_limit"},
		{"endpoints", endpointRow.with(row{"rate_per_ms": 1000}), "endpoints_rate_limit"},
		{"endpoints", endpointRow.with(row{"rate_limit": 0, "rate_per_ms": 1000}), "endpoints_rate_limit_check"},
		{"endpoints", endpointRow.with(row{"rate_limit": 1, "rate_per_ms": 0}), "endpoints_rate_per_ms_check"},
		{"endpoints", endpointRow.with(row{"ordering": "fifo"}), noValue},
		{"endpoints", endpointRow.with(row{"format": "cloudevents"}), ""},
		{"endpoints", endpointRow.with(row{"format": "xml"}), noValue},
		{"endpoints", endpointRow.with(row{"format": nil}), notNull},
		{"endpoints", endpointRow.with(row{"ordering": nil}), notNull},

		{"endpoint_pace", closedPace, ""},
		{"endpoint_pace", closedPace.with(row{"paused_until": at, "next_slot_at": at, "breaker_changed_at": at}), ""},
		{"endpoint_pace", openPace, ""},
		{"endpoint_pace", openPace.with(row{"breaker": "half_open", "trips": 7}), ""},
		{"endpoint_pace", closedPace.with(row{"trips": 1}), "endpoint_pace_trips"},
		{"endpoint_pace", openPace.with(row{"trips": 0}), "endpoint_pace_trips"},
		{"endpoint_pace", closedPace.with(row{"breaker_until": at}), "endpoint_pace_until"},
		{"endpoint_pace", openPace.with(row{"breaker_until": nil}), "endpoint_pace_until"},
		{"endpoint_pace", openPace.with(row{"breaker": "half_open", "breaker_until": nil}), "endpoint_pace_until"},
		{"endpoint_pace", openPace.with(row{"breaker_changed_at": nil}), "endpoint_pace_since"},
		{"endpoint_pace", closedPace.with(row{"endpoint_id": 5}), "endpoint_pace_shard_endpoint_id_fkey"},
		{"endpoint_pace", closedPace.with(row{"breaker": "ajar"}), noValue},

		{"alerts", openAlert, ""},
		{"alerts", openAlert.with(row{"state": "acknowledged", "acknowledged_at": at, "acknowledged_by": "me"}), ""},
		{"alerts", openAlert.with(row{"state": "resolved", "resolved_at": at}), ""},
		{"alerts", openAlert.with(row{"state": "acknowledged"}), "alerts_acknowledged"},
		{"alerts", openAlert.with(row{"state": "resolved"}), "alerts_resolved"},
		{"alerts", openAlert.with(row{"resolved_at": at}), "alerts_resolved"},
		{"alerts", openAlert.with(row{"endpoint_id": 5}), "alerts_shard_endpoint_id_fkey"},
		{"service_alerts", serviceAlert, ""},
		{"service_alerts", serviceAlert.with(row{"state": "resolved", "resolved_at": at}), ""},
		{"service_alerts", serviceAlert.with(row{"shard": 1}), "service_alerts_shard"},
		{"service_alerts", serviceAlert.with(row{"state": "acknowledged"}), "service_alerts_acknowledged"},
		{"service_alerts", serviceAlert.with(row{"resolved_at": at}), "service_alerts_resolved"},
		{"canary", row{"id": 2, "turn": 0}, "canary_is_one"},

		{"api_keys", key, ""},
		{"api_keys", key.with(row{"tenant_shard": id.Bucket(1), "tenant_id": 1}), ""},
		{"api_keys", key.with(row{"tenant_id": 1}), "api_keys_tenant"},
		{"api_keys", key.with(row{"tenant_shard": 1}), "api_keys_tenant"},
		{"api_keys", key.with(row{"tenant_shard": 1, "tenant_id": 5}), "api_keys_tenant_shard_tenant_id_fkey"},
		{"api_keys", key.with(row{"hash": `\x00`}), "api_keys_hash_check"},
		{"api_keys", key.with(row{"scopes": []string{}}), "api_keys_scopes_check"},
	} {
		if got := refusal(t, pool, test.table, test.row); got != test.refused {
			t.Errorf("%s %v: refused by %q, want %q", test.table, test.row, got, test.refused)
		}
	}
}

// refusal tries the row beside a tenant 1 and its endpoint 2, unless it is one of those itself, undoes it all, and gives
// what kept it out.
func refusal(t *testing.T, pool *pgxpool.Pool, table string, r row) string {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if table != "tenants" {
		if err := insert(t, tx, "tenants", tenantRow); err != nil {
			t.Fatal(err)
		}
	}
	if table == "alerts" || table == "endpoint_pace" {
		if err := insert(t, tx, "endpoints", endpointRow); err != nil {
			t.Fatal(err)
		}
	}
	err = insert(t, tx, table, r)
	var pgErr *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &pgErr):
		t.Fatal(err)
	case pgErr.ConstraintName == "":
		return pgErr.Code
	}
	return pgErr.ConstraintName
}

// insert puts a row into a table; a column that it does not name is null.
func insert(t *testing.T, tx pgx.Tx, table string, r row) error {
	t.Helper()
	columns, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec(t.Context(), `INSERT INTO `+table+` SELECT * FROM jsonb_populate_record(NULL::`+table+`, $1)`, string(columns))
	return err
}
