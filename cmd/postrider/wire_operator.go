package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
)

// operator is the tenant of alerts.tenant, which is told of alerts by events; nil: there is none. One that is not there keeps nothing
// from starting: somebody may make it later, and until then the log says what is missing.
func (w *wiring) operator(ctx context.Context) *alert.Operator {
	ref := w.cfg.Alerts.Tenant
	if ref == "" {
		return nil
	}
	find := func(ctx context.Context) (id.ID, error) {
		t, err := w.store.Tenant(ctx, ref)
		if err != nil {
			return id.ID{}, fmt.Errorf("alerts.tenant %s: %w", ref, err)
		}
		return t.ID, nil
	}
	if _, err := find(ctx); err != nil {
		w.log.Warn().Err(err).Msg("alert.tenant_missing")
	}
	return &alert.Operator{Tenant: find, Accept: func(ctx context.Context, tenant id.ID, events []alert.Event) error {
		return acceptOnce(ctx, w.intake, tenant, events)
	}}
}

// acceptOnce accepts events whose uids make each of them one. What was accepted before may have been worded otherwise then: a tenant
// was renamed, or an alert counted on.
func acceptOnce(ctx context.Context, i *intake.Intake, tenant id.ID, events []alert.Event) error {
	in := make([]intake.Event, len(events))
	for n, ev := range events {
		in[n] = intake.Event{Type: ev.Type, UID: ev.UID, GroupKey: ev.GroupKey, Payload: ev.Payload}
	}
	_, _, err := i.Accept(ctx, tenant, "", in)
	if !fault.Is(err, fault.Invalid) {
		return err //nolint:wrapcheck // it says what it did
	}
	var errs error
	for _, ev := range in {
		if _, _, err := i.Accept(ctx, tenant, "", []intake.Event{ev}); err != nil && !usedBefore(err) {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// usedBefore reports whether nothing is wrong with an event but that its uid stands for another one.
func usedBefore(err error) bool {
	var f *fault.Error
	if !errors.As(err, &f) || len(f.Fields) == 0 {
		return false
	}
	for _, field := range f.Fields {
		if !strings.HasSuffix(field.Pointer, "/uid") {
			return false
		}
	}
	return true
}
