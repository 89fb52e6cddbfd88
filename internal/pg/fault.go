package pg

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/fault"
)

// constraints says what a broken constraint means to a caller. One that is missing here is our own fault.
var constraints = map[string]*fault.Error{
	"tenants_uid_key":                      fault.New(fault.Conflict, "another tenant has this uid"),
	"endpoints_uid_key":                    fault.New(fault.Conflict, "another endpoint of this tenant has this uid"),
	"schedules_uid_key":                    fault.New(fault.Conflict, "another schedule of this tenant has this uid"),
	"endpoint_secrets_current_key":         fault.New(fault.Conflict, "the secret was being rotated by another request"),
	"api_keys_hash_key":                    fault.New(fault.Conflict, "this key exists already"),
	"api_keys_tenant_shard_tenant_id_fkey": fault.New(fault.NotFound, "no such tenant"),
}

// Fault gives a database error its meaning: no row is not_found, a known constraint its sentence, a database that is
// away, full or not taking writes is unavailable. Anything else, and an error that is a fault already, stays as it is.
func Fault(err error) error {
	var already *fault.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return fault.Wrap(fault.NotFound, err, "no such thing")
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		if f, known := constraints[pgErr.ConstraintName]; known {
			return fault.Wrap(f.Code, err, "%s", f.Detail)
		}
		if away(pgErr.Code) {
			return fault.Wrap(fault.Unavailable, err, "the database takes no work just now; nothing was done")
		}
		return err
	}
	var connectErr *pgconn.ConnectError
	var netErr net.Error
	switch {
	case errors.As(err, &connectErr), errors.As(err, &netErr), pgconn.Timeout(err),
		errors.Is(err, net.ErrClosed), errors.Is(err, context.DeadlineExceeded), lostConnection(err):
		return fault.Wrap(fault.Unavailable, err, "the database cannot be reached")
	}
	return err
}

// away reports whether a SQLSTATE says that the server cannot work for now: connection (08), resources (53, disk full
// and too many connections among them), operator intervention (57), a disk that fails (58030), a read-only server (25006), a
// session that it ended while we stood still (25P03), or clashes that outlived the tries of InTx (40001, 40P01). PostgreSQL's
// manual, appendix A.
func away(sqlstate string) bool {
	switch sqlstate {
	case readOnlyServer, serializationFailure, deadlockDetected, "55P03", "58030", "25P03":
		return true
	}
	return strings.HasPrefix(sqlstate, "08") || strings.HasPrefix(sqlstate, "53") || strings.HasPrefix(sqlstate, "57")
}

// lostConnection reports whether a connection broke off in the middle; pgx has no type for it.
func lostConnection(err error) bool {
	text := err.Error()
	for _, sign := range []string{
		"unexpected EOF", "conn closed", "connection reset", "broken pipe", "closed pool", "closed network connection",
	} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}
