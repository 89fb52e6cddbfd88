package watch

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// A canary that failed is not sent again: the next one is on its way before. It is tried again only so that no alert says that the
// delivery, too, failed for good.
var canarySchedule = []time.Duration{24 * time.Hour}

// home gives the canary's tenant and endpoint. They are made when they lack, and mended when somebody changed them: no breaker, no pause
// and no status of the last one is to keep the next one from being tried.
func (s *Sender) home(ctx context.Context, row canaryRow) (t subscriptions.Tenant, e subscriptions.Endpoint, err error) {
	t, err = s.store.Tenant(ctx, CanaryTenant)
	if fault.Is(err, fault.NotFound) {
		uid := CanaryTenant
		t, err = s.store.CreateTenant(ctx, subscriptions.NewTenant{UID: &uid, Name: "Postrider's canary"})
	}
	if err != nil {
		return t, e, err //nolint:wrapcheck // says what it did
	}
	url, err := s.url(row)
	if err != nil {
		return t, e, err
	}
	e, err = s.store.Endpoint(ctx, t, canaryEndpoint)
	if err == nil && e.Kind != subscriptions.Push { // somebody put another in its place: a kind is for life
		if _, err = s.store.DeleteEndpoint(ctx, t, canaryEndpoint); err == nil || fault.Is(err, fault.NotFound) {
			e, err = s.store.Endpoint(ctx, t, canaryEndpoint)
		}
	}
	uid := canaryEndpoint
	switch {
	case fault.Is(err, fault.NotFound):
		e, _, err = s.store.CreateEndpoint(ctx, t, subscriptions.NewEndpoint{
			UID: &uid, URL: url, RetrySchedule: canarySchedule,
			Description: "Postrider sends itself an event again and again, to see that deliveries are made: canary.enabled.",
		})
	case err != nil:
	case !asMade(e, url):
		e, err = s.store.UpdateEndpoint(ctx, t, canaryEndpoint, "", asMadePatch(url))
	}
	return t, e, err //nolint:wrapcheck // says what it did
}

// asMade says that nothing about an endpoint can keep a canary from coming through, or put others' things into one.
func asMade(e subscriptions.Endpoint, url string) bool {
	return e.URL == url && e.Status == subscriptions.Enabled && e.Pace.Breaker == subscriptions.BreakerClosed && e.Pace.PausedUntil == nil &&
		len(e.EventTypes) == 0 && e.Filter == nil && len(e.Headers) == 0 && e.Scheme == signer.Standard && e.MaxInFlight == nil &&
		e.RateLimit == nil && e.Ordering == subscriptions.OrderingNone && e.Format == subscriptions.FormatRaw && e.Timeout == nil &&
		len(e.RetrySchedule) == len(canarySchedule) && e.RetrySchedule[0] == canarySchedule[0] && e.TLS.CA == "" && e.TLS.Certificate == ""
}

// asMadePatch gives an endpoint back what asMade asks for: what is given without a value is the default.
func asMadePatch(url string) subscriptions.EndpointPatch {
	enabled, schedule := subscriptions.Enabled, canarySchedule
	return subscriptions.EndpointPatch{
		URL: subscriptions.Optional[string]{Given: true, Value: &url}, Status: &enabled,
		EventTypes:    subscriptions.Optional[[]string]{Given: true},
		Filter:        subscriptions.Optional[string]{Given: true},
		Headers:       subscriptions.Optional[[]signer.Header]{Given: true},
		Scheme:        subscriptions.Optional[signer.Scheme]{Given: true},
		MaxInFlight:   subscriptions.Optional[int]{Given: true},
		RateLimit:     subscriptions.Optional[subscriptions.RateLimit]{Given: true},
		Ordering:      subscriptions.Optional[subscriptions.Ordering]{Given: true},
		Format:        subscriptions.Optional[subscriptions.Format]{Given: true},
		Timeout:       subscriptions.Optional[time.Duration]{Given: true},
		RetrySchedule: subscriptions.Optional[[]time.Duration]{Given: true, Value: &schedule},
		TLS:           subscriptions.Optional[subscriptions.TLSPatch]{Given: true},
	}
}

// url is where this process has canaries sent to. The token stays as it is.
func (s *Sender) url(row canaryRow) (string, error) {
	token := ""
	if row.URL != nil {
		token = tokenOf(*row.URL)
	}
	if token == "" {
		random := make([]byte, 16)
		if _, err := rand.Read(random); err != nil {
			return "", fmt.Errorf("make the canary's token: %w", err)
		}
		token = hex.EncodeToString(random)
	}
	return s.base + CanaryPath + token, nil
}

func tokenOf(url string) string {
	_, token, _ := strings.Cut(url, CanaryPath)
	return token
}
