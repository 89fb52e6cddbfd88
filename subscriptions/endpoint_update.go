package subscriptions

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/signer"
)

// UpdateEndpoint changes what the patch gives. ifMatch is the header If-Match, "" if there was none; an older version
// in it is precondition_failed. A patch that changes nothing leaves the version as it is.
//
// What the endpoint's pace says of how it was goes with the change: another URL, other TLS and status enabled (also of an
// endpoint that is enabled) close the breaker and end a pause, another rate limit frees the slots that were taken under the old one.
//
// A change of the scheme ends a rotation's overlap, since an old secret is one of the old scheme. It keeps the current
// secret if that is one under the new scheme too; if not, or if either scheme is standard-ed25519 (whose private key no
// receiver has), the secret that came along takes its place, or else a new one. What took its place is Minted in the
// answer.
func (s *Store) UpdateEndpoint(ctx context.Context, t Tenant, ref, ifMatch string, p EndpointPatch) (Endpoint, error) {
	var e Endpoint
	err := s.inTx(ctx, func(tx pgx.Tx, now time.Time) error {
		r, err := findEndpoint(ctx, tx, t.ID, ref, forUpdate)
		if err != nil {
			return err
		}
		before, err := s.endpoint(r)
		if err != nil {
			return err
		}
		e = before
		secret, err := s.rules.apply(&e, p, now)
		if err != nil {
			return err
		}
		if err := before.checkMatch(ifMatch); err != nil {
			return err
		}
		var minted signer.Secret
		stale := p.outdates(before, e)
		// What was on its way before the owner let it go is not to hold it again, so that is a new version as well.
		if !reflect.DeepEqual(before, e) || stale.breaker && before.Pace.holds() {
			e.Version, e.UpdatedAt = before.Version+1, now
			if minted, err = s.change(ctx, tx, before, e, r, secret); err != nil {
				return err
			}
		} else if stale == (outdated{}) {
			return nil
		}
		if err := clearPace(ctx, tx, e.ID, stale, now); err != nil {
			return err
		}
		eased := stale.breaker && before.Pace.holds()
		if err := s.note(ctx, tx, endpointEntries(before, e, minted, eased)...); err != nil {
			return err
		}
		e, err = s.readBack(ctx, tx, e.ID)
		e.Minted = minted
		return err
	})
	if err != nil {
		return Endpoint{}, err
	}
	s.changed(e.ID)
	return e, nil
}

// change writes e over before, which was read of the locked row r, and gives the secret if that is another one than before.
func (s *Store) change(
	ctx context.Context, tx pgx.Tx, before, e Endpoint, r endpointRow, secret signer.Secret,
) (signer.Secret, error) {
	if err := s.updateEndpoint(ctx, tx, before, e, r); err != nil {
		return signer.Secret{}, err
	}
	if e.Scheme == before.Scheme {
		return signer.Secret{}, nil
	}
	return s.changeScheme(ctx, tx, before.Scheme, e, secret, e.UpdatedAt)
}

// changeScheme settles which secret signs under e's new scheme, and gives it if it is another one than before.
func (s *Store) changeScheme(
	ctx context.Context, tx pgx.Tx, before signer.Scheme, e Endpoint, secret signer.Secret, now time.Time,
) (signer.Secret, error) {
	live, err := liveSecrets(ctx, tx, e.ID, now)
	if err != nil {
		return signer.Secret{}, err
	}
	if secret.Reveal() == "" && len(live) > 0 && s.staysValid(live[0], before, e) {
		return signer.Secret{}, deleteSecrets(ctx, tx, e.ID, live[0].ID)
	}
	if secret, err = orNew(secret, e.Scheme); err != nil {
		return signer.Secret{}, err
	}
	if err := deleteSecrets(ctx, tx, e.ID); err != nil {
		return signer.Secret{}, err
	}
	return secret, s.insertSecret(ctx, tx, e.ID, secret, now)
}

// staysValid reports whether the current secret can go on under e's new scheme. One that does not open cannot.
func (s *Store) staysValid(current secretRow, before signer.Scheme, e Endpoint) bool {
	if before == signer.StandardEd25519 || e.Scheme == signer.StandardEd25519 {
		return false
	}
	_, err := s.openSecret(e.ID, e.Scheme, current.KeyID, current.Sealed)
	return err == nil
}

// updateEndpoint writes e over the locked row r, which before was made of.
func (s *Store) updateEndpoint(ctx context.Context, tx pgx.Tx, before, e Endpoint, r endpointRow) error {
	const query = `
UPDATE endpoints
   SET uid = @uid, url = @url, description = @description, event_types = @event_types, filter = @filter,
       header_names = @header_names, headers_sealed = @headers_sealed, headers_key_id = @headers_key_id, scheme = @scheme,
       signature_header = @signature_header, max_in_flight = @max_in_flight, rate_limit = @rate_limit,
       rate_per_ms = @rate_per_ms, ordering = @ordering, format = @format, trace_context = @trace_context, timeout_ms = @timeout_ms,
       retry_schedule_ms = @retry_schedule_ms, tls_ca = @tls_ca, tls_certificate = @tls_certificate,
       tls_key_sealed = @tls_key_sealed, tls_key_id = @tls_key_id, metadata = @metadata, status = @status,
       status_reason = @status_reason, status_changed_at = @status_changed_at, consecutive_failures = @failures,
       failing_since = @failing_since, last_error = @last_error, version = @version, updated_at = @updated_at
 WHERE shard = @shard AND id = @id`
	args, err := e.settings()
	if err != nil {
		return err
	}
	args["failures"], args["failing_since"], args["last_error"] = e.ConsecutiveFailures, e.FailingSince, e.LastError
	args["headers_key_id"], args["headers_sealed"] = r.HeadersKeyID, r.HeadersSealed
	newHeaders := !slices.Equal(before.Headers, e.Headers)
	if newHeaders {
		if args["headers_key_id"], args["headers_sealed"], err = s.sealHeaders(ctx, tx, e); err != nil {
			return err
		}
	}
	if args["tls_key_id"], args["tls_key_sealed"], err = s.tlsKeyColumns(ctx, tx, e, r); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, query, args); err != nil {
		return fmt.Errorf("change an endpoint: %w", err)
	}
	if newHeaders || before.URL != e.URL || before.Scheme != e.Scheme || before.SignatureHeader != e.SignatureHeader || before.Format != e.Format {
		return insertVersion(ctx, tx, e)
	}
	return nil
}
