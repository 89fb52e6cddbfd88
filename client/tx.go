package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Tx is what EnqueueTx needs of a pgx.Tx.
type Tx interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// The function is in migrations/0016_enqueue.sql, which says what it does.
const enqueueSQL = `
SELECT postrider.enqueue(tenant => $1, type => $2, payload => $3, content_type => nullif($4, ''), uid => $5, group_key => $6, deliver_at => $7,
    endpoint_ids => $8, metadata => $9::jsonb)`

// EnqueueTx enqueues an event in the caller's transaction, on the PostgreSQL that Postrider uses, and gives the event's id. With the
// caller's commit the event exists, and with its rollback it never did; it is delivered soon after the commit. The caller's role has to
// be a member of postrider_producer and needs no right on any table.
//
// The same UID and content give the same id, also after the commit. A UID that another transaction has just used is waited for until
// that ends, so set lock_timeout, or have ctx end. What the database refuses is an *Error, with the place in Errors, and the transaction can only be
// rolled back, as after any error of PostgreSQL; use a savepoint to go on.
//
// A payload that breaks the schema of its type is not refused, since that is looked at after the commit: the event fails.
func EnqueueTx(ctx context.Context, tx Tx, e Event) (id string, err error) {
	if err := e.checkTx(); err != nil {
		return "", err
	}
	payload := e.Payload
	if payload == nil {
		payload = []byte{} // nil would be NULL
	}
	var deliverAt *time.Time
	if !e.DeliverAt.IsZero() {
		deliverAt = &e.DeliverAt
	}
	metadata, err := e.metadataText()
	if err != nil {
		return "", err
	}
	row := tx.QueryRow(ctx, enqueueSQL, e.Tenant, e.Type, payload, e.ContentType, e.UID, e.GroupKey, deliverAt, e.EndpointIDs, metadata)
	if err := row.Scan(&id); err != nil {
		return "", refusalOf(err)
	}
	return id, nil
}

// checkTx looks for what the database could not even read, which would cost the caller its transaction.
func (e Event) checkTx() error {
	var f faults
	for _, field := range []struct{ pointer, text string }{
		{"/tenant", e.Tenant}, {"/type", e.Type}, {"/content_type", e.ContentType}, {"/uid", e.UID}, {"/group_key", e.GroupKey},
	} {
		f.checkText(field.pointer, field.text)
	}
	for n, ref := range e.EndpointIDs {
		f.checkText(fmt.Sprintf("/endpoint_ids/%d", n), ref)
	}
	if e.IdempotencyKey != "" {
		f.add("", "an IdempotencyKey is for calls over HTTP; in a transaction the UID makes an event one")
	}
	return f.err()
}

func (f *faults) checkText(pointer, text string) {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		f.add(pointer, "is no text in UTF-8 without the character NUL")
	}
}

func (e Event) metadataText() (*string, error) {
	if len(e.Metadata) == 0 {
		return nil, nil //nolint:nilnil // there is none, which is NULL
	}
	var f faults
	b, err := json.Marshal(e.Metadata)
	switch {
	case err != nil:
		f.add("/metadata", "is not to be written as JSON: "+err.Error())
	case strings.Contains(strings.ReplaceAll(string(b), `\\`, ""), `\u0000`):
		f.add("/metadata", "holds the character NUL")
	}
	text := string(b)
	return &text, f.err()
}

// refusals are the SQLSTATEs of postrider.enqueue, and the statuses that the same has over HTTP.
var refusals = map[string]int{
	"22023": http.StatusUnprocessableEntity, // invalid_parameter_value
	"23505": http.StatusUnprocessableEntity, // unique_violation: the uid has other content
	"54000": http.StatusRequestEntityTooLarge,
	"P0002": http.StatusNotFound, // no_data_found: no such tenant
}

// refusalOf tells what the function refuses, whose message begins with the place, from anything else that goes wrong.
func refusalOf(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		status, ours := refusals[pgErr.Code]
		pointer, detail, placed := strings.Cut(pgErr.Message, ": ")
		if ours && placed && strings.HasPrefix(pointer, "/") {
			return &Error{
				Status: status, Title: http.StatusText(status), Detail: pgErr.Message,
				Errors: []FieldError{{Pointer: pointer, Detail: detail}},
			}
		}
	}
	return fmt.Errorf("postrider: enqueue: %w", err)
}
