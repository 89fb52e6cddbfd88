package subscriptions_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

func TestATargetIsWhatAnAttemptNeeds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, secret := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) {
		n.Scheme, n.SignatureHeader, n.Headers = signer.Stripe, "X-Sig", headers("X-A", "1", "Authorization", "Bearer x")
		n.MaxInFlight, n.Timeout, n.RetrySchedule = ptr(3), ptr(2*time.Second), []time.Duration{time.Second, time.Minute}
		n.RateLimit, n.Format = &subscriptions.RateLimit{Limit: 3, Per: time.Second}, subscriptions.FormatCloudEvents
		n.TraceContext = true
	})
	until := w.clock.now().Add(time.Minute)
	w.exec(`INSERT INTO endpoint_pace VALUES ($1, $2, 'half_open', 3, $3, $3, $4, $5)`, e.ID.Shard, e.ID.N, until,
		until.Add(time.Second), until.Add(2*time.Second))
	w.exec(`UPDATE endpoints SET status = 'disabled', status_reason = 'x', consecutive_failures = 2, failing_since = $1, version = 9
		WHERE id = $2`, w.clock.now(), e.ID.N)
	got := w.target(e)
	secrets := got.Secrets
	if len(secrets) != 1 || secrets[0].Reveal() != secret.Reveal() || secrets[0].ExpiresAt != nil {
		t.Errorf("%d secrets sign, or another", len(secrets))
	}
	got.Secrets = nil
	want := subscriptions.Target{
		Endpoint: e.ID, Tenant: tenant.ID, URL: e.URL, Headers: headers("Authorization", "Bearer x", "X-A", "1"),
		Scheme: signer.Stripe, SignatureHeader: "X-Sig", MaxInFlight: 3, Timeout: 2 * time.Second,
		RetrySchedule: []time.Duration{time.Second, time.Minute}, Status: subscriptions.Disabled, Version: 9,
		FailingSince: ptr(w.clock.now()), RateLimit: subscriptions.RateLimit{Limit: 3, Per: time.Second},
		Breaker: subscriptions.BreakerHalfOpen, Trips: 3, BreakerUntil: until, PausedUntil: until.Add(time.Second),
		NextSlotAt: until.Add(2 * time.Second), Format: subscriptions.FormatCloudEvents, TraceContext: true,
	}
	if !reflect.DeepEqual(any(got), any(want)) {
		t.Errorf("the target is\n%+v, want\n%+v", got, want)
	}
	plain, _ := w.endpoint(tenant, nil)
	got = w.target(plain)
	if got.RateLimit != (subscriptions.RateLimit{}) || got.Breaker != subscriptions.BreakerClosed || got.Trips != 0 ||
		!got.BreakerUntil.IsZero() || !got.PausedUntil.IsZero() || !got.NextSlotAt.IsZero() || got.MaxInFlight != 0 || got.Timeout != 0 || got.RetrySchedule != nil || len(got.Headers) != 0 || got.FailingSince != nil ||
		got.Format != subscriptions.FormatRaw || got.TraceContext {
		t.Errorf("the defaults are %+v", got)
	}
}

// A target that was read a moment ago: what ended since signs no more.
func TestValidLeavesOutWhatHasEnded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	var secrets []subscriptions.TimedSecret
	for i, end := range []*time.Time{nil, ptr(now.Add(time.Nanosecond)), ptr(now), ptr(now.Add(-time.Second))} {
		secret := must(signer.ParseSecret(signer.Standard, whsec(i)))(t)
		secrets = append(secrets, subscriptions.TimedSecret{Secret: secret, ExpiresAt: end})
	}
	got := texts(subscriptions.Target{Secrets: secrets}.Valid(now), signer.Secret.Reveal)
	if !slices.Equal(got, []string{whsec(0), whsec(1)}) {
		t.Errorf("%q sign", got)
	}
}

func TestTargetsAreOfOneBucket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	a, _ := w.endpoint(tenant, nil)
	b, _ := w.endpoint(tenant, nil)
	got := must(w.Targets(t.Context(), []id.ID{b.ID, a.ID, {Shard: a.ID.Shard, N: 12345}, a.ID}))(t)
	if len(got) != 2 || got[a.ID].Endpoint != a.ID || got[b.ID].Endpoint != b.ID {
		t.Errorf("the targets are %v", got)
	}
	if got := must(w.Targets(t.Context(), []id.ID{{Shard: (a.ID.Shard + 1) % id.Buckets, N: a.ID.N}}))(t); len(got) != 0 {
		t.Errorf("another bucket has %v", got)
	}
	if got := must(w.Targets(t.Context(), nil))(t); len(got) != 0 {
		t.Errorf("none asked for, and got %v", got)
	}
}

// One poisoned row does not take the batch with it, whatever is wrong with it.
func TestATargetThatDoesNotOpenSuffersAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	withHeaders := func(n *subscriptions.NewEndpoint) { n.Headers = headers("X-A", "1") }
	healthy, _ := w.endpoint(tenant, withHeaders)
	foreign, _, err := w.under(otherSealKey).CreateEndpoint(t.Context(), tenant, subscriptions.NewEndpoint{URL: "https://a.example"})
	if err != nil {
		t.Fatal(err)
	}
	badHeaders, _ := w.endpoint(tenant, withHeaders)
	w.exec(`UPDATE endpoints SET headers_sealed = '\x00' WHERE id = $1`, badHeaders.ID.N)
	swapped, _ := w.endpoint(tenant, nil)
	w.exec(`UPDATE endpoint_secrets s SET sealed = o.sealed FROM endpoint_secrets o WHERE s.endpoint_id = $1 AND o.endpoint_id = $2`,
		swapped.ID.N, healthy.ID.N)
	noSecret, _ := w.endpoint(tenant, nil)
	w.exec(`DELETE FROM endpoint_secrets WHERE endpoint_id = $1`, noSecret.ID.N)
	onlyOld, _ := w.endpoint(tenant, nil)
	w.exec(`UPDATE endpoint_secrets SET expires_at = $1 WHERE endpoint_id = $2`, w.clock.now().Add(time.Hour), onlyOld.ID.N)
	all := []subscriptions.Endpoint{healthy, foreign, badHeaders, swapped, noSecret, onlyOld}
	var ids []id.ID
	for _, e := range all {
		ids = append(ids, e.ID)
	}
	targets := must(w.Targets(t.Context(), ids))(t)
	for i, e := range all {
		target := targets[e.ID]
		if target.URL == "" || (target.Err == nil) != (i == 0) || (len(target.Secrets) > 0) != (i == 0) {
			t.Errorf("%d: %d secrets sign, %v", i, len(target.Secrets), target.Err)
		}
	}
}

// An old secret that does not open is done without; the current one signs.
func TestAnOldSecretThatDoesNotOpenIsDoneWithout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, nil)
	_, secret, err := w.under(otherSealKey).RotateSecret(t.Context(), tenant, ref(e), "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	target := must(w.under(otherSealKey).Targets(t.Context(), []id.ID{e.ID}))(t)[e.ID]
	if target.Err != nil || len(target.Secrets) != 1 || target.Secrets[0].Reveal() != secret.Reveal() {
		t.Errorf("%d secrets sign, %v", len(target.Secrets), target.Err)
	}
}

// What does not open is shown as far as it can be, in a list beside the others, and can be mended by its owner.
func TestAnEndpointThatDoesNotOpenIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) {
		n.Headers, n.Scheme = headers("X-A", "1"), signer.StandardEd25519
	})
	moved := w.under(otherSealKey)
	list := must(moved.Endpoints(t.Context(), tenant, 10, id.ID{}))(t)
	if len(list) != 1 || list[0].Unreadable == "" || !reflect.DeepEqual(list[0].Headers, headers("X-A", "")) || list[0].PublicKey != "" {
		t.Fatalf("the list is %+v", list)
	}
	kept := must(moved.UpdateEndpoint(t.Context(), tenant, ref(e), "", subscriptions.EndpointPatch{URL: put("https://b.example")}))(t)
	if back := must(w.Endpoint(t.Context(), tenant, ref(e)))(t); kept.Unreadable == "" || back.Unreadable != "" ||
		!reflect.DeepEqual(back.Headers, headers("X-A", "1")) {
		t.Errorf("a change elsewhere lost what the right key opens: %+v", back)
	}
	if _, _, err := moved.RotateSecret(t.Context(), tenant, ref(e), "", 0); err != nil {
		t.Fatal(err)
	}
	mended := must(moved.UpdateEndpoint(t.Context(), tenant, ref(e), "", subscriptions.EndpointPatch{Headers: put(headers("X-A", "2"))}))(t)
	if mended.Unreadable != "" || mended.PublicKey == "" || !reflect.DeepEqual(mended.Headers, headers("X-A", "2")) {
		t.Errorf("it is %+v", mended)
	}
}

func TestCandidatesAndClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	a, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) {
		n.UID, n.EventTypes, n.Ordering = ptr("a"), []string{"x.*"}, "group"
	})
	gone, _ := w.endpoint(tenant, nil)
	b, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.Disabled = true })
	dead, _ := w.endpoint(tenant, nil)
	far := w.tenant()
	away, _ := w.endpoint(far, nil)
	must(w.DeleteEndpoint(t.Context(), tenant, ref(gone)))(t)
	w.exec(`UPDATE endpoints SET status = 'dead', status_reason = 'gone' WHERE id = $1`, dead.ID.N)
	other, shard := w.tenantIn(tenant.ID.Shard), tenant.ID.Shard
	nobody := id.ID{Shard: shard, N: 5}
	theirs, _ := w.endpoint(other, nil)
	all := w.candidates(far.ID, other.ID, tenant.ID, nobody)
	want := []subscriptions.Candidate{
		{Endpoint: a.ID.N, UID: ptr("a"), EventTypes: []string{"x.*"}, Status: subscriptions.Enabled, Ordered: true},
		{Endpoint: b.ID.N, EventTypes: []string{}, Status: subscriptions.Disabled},
		{Endpoint: dead.ID.N, EventTypes: []string{}, Status: subscriptions.Dead},
	}
	if got := all[tenant.ID]; !reflect.DeepEqual(got, want) {
		t.Errorf("the candidates are %+v, want %+v", got, want)
	}
	if none, told := all[nobody]; len(all) != 4 || !told || len(none) != 0 || len(all[other.ID]) != 1 ||
		all[other.ID][0].Endpoint != theirs.ID.N || len(all[far.ID]) != 1 || all[far.ID][0].Endpoint != away.ID.N {
		t.Errorf("all candidates are %+v", all)
	}
	elsewhere := id.ID{Shard: (shard + 1) % id.Buckets, N: tenant.ID.N}
	if got := w.candidates(elsewhere); len(got[elsewhere]) != 0 {
		t.Errorf("in another bucket it has %v", got)
	}
	none := &pgx.Batch{}
	if subscriptions.QueueCandidates(none, nil, nil); none.Len() != 0 {
		t.Error("no tenants queue a statement")
	}
	if got := must(w.ClosedEndpoints(t.Context(), tenant.ID.Shard))(t); !reflect.DeepEqual(got, []id.ID{gone.ID, dead.ID}) {
		t.Errorf("closed are %v", got)
	}
	if got := must(w.ClosedEndpoints(t.Context(), (tenant.ID.Shard+1)%id.Buckets))(t); len(got) != 0 {
		t.Errorf("another bucket has %v", got)
	}
}
