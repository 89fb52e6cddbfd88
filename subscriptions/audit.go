package subscriptions

import (
	"context"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/duration"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
)

// What the audit log says of tenants and endpoints. Names of headers are told, their values never; metadata is the owner's
// own and may be long, so that only its change is told.

// note writes entries about an endpoint into the transaction of what was done to it.
func (s *Store) note(ctx context.Context, tx pgx.Tx, entries ...audit.Entry) error {
	return audit.Write(ctx, tx, s.ids.Next, entries...)
}

func aboutTenant(t id.ID, action audit.Action, details audit.Details) audit.Entry {
	return audit.Entry{Action: action, Object: audit.Thing{Kind: id.Tenant, ID: t}, Tenant: &t, Details: details}
}

func aboutEndpoint(e, t id.ID, action audit.Action, details audit.Details) audit.Entry {
	return audit.Entry{Action: action, Object: audit.Thing{Kind: id.Endpoint, ID: e}, Tenant: &t, Details: details}
}

func tenantChanges(before, after Tenant) (d audit.Details) {
	d.Changed("uid", before.UID, after.UID)
	d.Changed("name", before.Name, after.Name)
	d.Changed("contact_email", before.ContactEmail, after.ContactEmail)
	d.Changed("retention.events", spelledSpan(before.Retention.Events), spelledSpan(after.Retention.Events))
	d.Changed("retention.attempts", spelledSpan(before.Retention.Attempts), spelledSpan(after.Retention.Attempts))
	d.ChangedUnseen("metadata", !reflect.DeepEqual(before.Metadata, after.Metadata))
	return d
}

// endpointChanges tells of settings, by the names that the API has for them. The status has an entry of its own.
func endpointChanges(before, after Endpoint) (d audit.Details) {
	d.Changed("uid", before.UID, after.UID)
	if was, is := audit.URL(before.URL), audit.URL(after.URL); was != is {
		d.Changed("url", was, is)
	} else {
		d.ChangedUnseen("url", before.URL != after.URL) // in its query
	}
	d.Changed("description", before.Description, after.Description)
	d.Changed("event_types", before.EventTypes, after.EventTypes)
	d.Changed("filter", before.Filter, after.Filter)
	if was, is := headerNames(before.Headers), headerNames(after.Headers); !slices.Equal(was, is) {
		d.Changed("headers", was, is)
	} else {
		d.ChangedUnseen("headers", !slices.Equal(before.Headers, after.Headers))
	}
	d.Changed("signature.scheme", before.Scheme.String(), after.Scheme.String())
	d.Changed("signature.header", before.SignatureHeader, after.SignatureHeader)
	d.Changed("max_in_flight", before.MaxInFlight, after.MaxInFlight)
	d.Changed("rate_limit", spelledRate(before.RateLimit), spelledRate(after.RateLimit))
	d.Changed("ordering", before.Ordering, after.Ordering)
	d.Changed("format", before.Format, after.Format)
	d.Changed("trace_context", before.TraceContext, after.TraceContext)
	d.Changed("timeout", spelledSpan(before.Timeout), spelledSpan(after.Timeout))
	d.Changed("retry_schedule", duration.FormatList(before.RetrySchedule), duration.FormatList(after.RetrySchedule))
	d.ChangedUnseen("tls.ca", before.TLS.CA != after.TLS.CA)
	d.ChangedUnseen("tls.certificate", before.TLS.Certificate != after.TLS.Certificate)
	d.ChangedUnseen("metadata", !reflect.DeepEqual(before.Metadata, after.Metadata))
	return d
}

// endpointEntries are those of a change by an owner: of the settings, of the status, or of both. eased says that what was
// known of the endpoint's pace was dropped.
func endpointEntries(before, after Endpoint, minted signer.Secret, eased bool) (entries []audit.Entry) {
	d := endpointChanges(before, after)
	d.ChangedUnseen("signature.secret", minted.Reveal() != "")
	if before.Status == after.Status {
		d.ChangedUnseen("pace", eased)
	}
	if len(d) > 0 {
		entries = append(entries, aboutEndpoint(after.ID, after.TenantID, audit.EndpointUpdated, d))
	}
	if before.Status != after.Status {
		entries = append(entries, statusEntry(after.ID, after.TenantID, string(before.Status), string(after.Status), after.StatusReason))
	}
	return entries
}

func statusEntry(e, t id.ID, before, after string, reason *string) audit.Entry {
	var d audit.Details
	d.Changed("status", before, after)
	if reason != nil {
		d["reason"] = *reason
	}
	return aboutEndpoint(e, t, audit.EndpointStatusChanged, d)
}

func spelledRate(l *RateLimit) string {
	if l == nil {
		return ""
	}
	return strconv.Itoa(l.Limit) + " per " + duration.Format(l.Per)
}

func spelledSpan(d *time.Duration) string {
	if d == nil {
		return ""
	}
	return duration.Format(*d)
}

func (s *Store) noteTenantGone(ctx context.Context, tx pgx.Tx, t id.ID, endpoints []id.ID) error {
	if err := s.note(ctx, tx, aboutTenant(t, audit.TenantDeleted, nil)); err != nil {
		return err
	}
	var entries []audit.Entry
	for _, e := range endpoints {
		entries = append(entries, aboutEndpoint(e, t, audit.EndpointDeleted, audit.Details{"reason": "tenant_deleted"}))
	}
	// Somebody deleted the tenant; that its endpoints go with it is a rule.
	return s.note(audit.With(ctx, audit.System("tenant deletion")), tx, entries...)
}
