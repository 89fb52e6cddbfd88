package subscriptions_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// headers makes static headers of names and values in turn.
func headers(pairs ...string) []signer.Header {
	var out []signer.Header
	for pair := range slices.Chunk(pairs, 2) {
		out = append(out, signer.Header{Name: pair[0], Value: pair[1]})
	}
	return out
}

func TestAnEndpointIsWhatItWasMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	made, secret, err := w.CreateEndpoint(t.Context(), tenant, subscriptions.NewEndpoint{
		UID: ptr("orders"), URL: "https://example.com/hook?token=x", Description: "Bestellungen, täglich",
		EventTypes: []string{"order.*", "user.created", "order.*"}, Headers: headers("X-B", "2", "Authorization", "Bearer é:1"),
		Scheme: signer.Stripe, SignatureHeader: "Stripe-Signature", Secret: "whsec_anything-of-16", MaxInFlight: ptr(1024),
		Timeout: ptr(1500 * time.Millisecond), RetrySchedule: []time.Duration{time.Millisecond, 30 * 24 * time.Hour},
		Metadata: map[string]any{"team": "a"}, Disabled: true,
		RateLimit: &subscriptions.RateLimit{Limit: 10_000, Per: 24 * time.Hour}, Ordering: subscriptions.OrderingGroup, Format: subscriptions.FormatCloudEvents,
		TraceContext: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	now := w.clock.now()
	want := subscriptions.Endpoint{
		ID: made.ID, TenantID: tenant.ID, UID: ptr("orders"), Kind: subscriptions.Push, URL: "https://example.com/hook?token=x",
		Description: "Bestellungen, täglich", EventTypes: []string{"order.*", "user.created"},
		Headers: headers("Authorization", "Bearer é:1", "X-B", "2"), Scheme: signer.Stripe, SignatureHeader: "Stripe-Signature",
		MaxInFlight: ptr(1024), Timeout: ptr(1500 * time.Millisecond),
		RetrySchedule: []time.Duration{time.Millisecond, 30 * 24 * time.Hour}, Metadata: map[string]any{"team": "a"},
		Status: subscriptions.Disabled, StatusReason: ptr("disabled_by_user"), StatusChangedAt: now,
		Version: 1, CreatedAt: now, UpdatedAt: now,
		RateLimit: &subscriptions.RateLimit{Limit: 10_000, Per: 24 * time.Hour}, Ordering: subscriptions.OrderingGroup, Format: subscriptions.FormatCloudEvents,
		TraceContext: true,
		Pace:         subscriptions.Pace{Breaker: subscriptions.BreakerClosed},
	}
	if !reflect.DeepEqual(made, want) {
		t.Errorf("made is\n%+v, want\n%+v", made, want)
	}
	if secret.Reveal() != "whsec_anything-of-16" {
		t.Error("the secret is another one")
	}
	for _, name := range []string{ref(made), "orders"} {
		if got := must(w.Endpoint(t.Context(), tenant, name))(t); !reflect.DeepEqual(got, want) {
			t.Errorf("%s reads\n%+v, want\n%+v", name, got, want)
		}
	}
	if got := must(w.EndpointByID(t.Context(), made.ID))(t); !reflect.DeepEqual(got, want) {
		t.Errorf("by id it is %+v", got)
	}
	if made.ETag() != `"1"` || made.ID.Shard != tenant.ID.Shard {
		t.Errorf("ETag %s, bucket %d", made.ETag(), made.ID.Shard)
	}
}

func TestEndpointDefaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	made, secret := w.endpoint(tenant, nil)
	if made.Scheme != signer.Standard || !strings.HasPrefix(secret.Reveal(), "whsec_") || made.Status != subscriptions.Enabled ||
		made.StatusReason != nil || made.Timeout != nil || made.MaxInFlight != nil || made.RetrySchedule != nil ||
		made.RateLimit != nil || made.Ordering != subscriptions.OrderingNone || made.Format != subscriptions.FormatRaw ||
		len(made.EventTypes) != 0 || len(made.Headers) != 0 || made.Metadata == nil || made.PublicKey != "" {
		t.Errorf("made is %+v", made)
	}
	for _, scheme := range signer.Schemes() {
		e, secret := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.Scheme = scheme })
		if _, err := signer.ParseSecret(scheme, secret.Reveal()); err != nil {
			t.Errorf("%s: the secret that was made is none: %v", scheme, err)
		}
		if e.PublicKey != secret.PublicKey() || (e.PublicKey != "") != (scheme == signer.StandardEd25519) {
			t.Errorf("%s: the public key is %q", scheme, e.PublicKey)
		}
		if got := w.signing(tenant, e); !slices.Equal(got, []string{secret.Reveal()}) {
			t.Errorf("%s: %v sign", scheme, got)
		}
		if got := must(w.Endpoint(t.Context(), tenant, ref(e)))(t); !reflect.DeepEqual(got, e) {
			t.Errorf("%s reads %+v, want %+v", scheme, got, e)
		}
	}
}

func TestEndpointFaultsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, _, err := w.CreateEndpoint(t.Context(), w.tenant(), subscriptions.NewEndpoint{
		URL: "http://10.0.0.1/", UID: ptr("ep_1"), Description: strings.Repeat("x", 1001), EventTypes: []string{"a", "*.b", "c*"},
		Headers: headers("X/A", "1", "Host", "evil", "X-Good", "1", "X~B", "\r\n"), Secret: "short", MaxInFlight: ptr(0),
		Timeout: ptr(time.Hour), RetrySchedule: []time.Duration{time.Second, 0}, Metadata: map[string]any{"a": "\x00"},
		RateLimit: &subscriptions.RateLimit{}, Ordering: "fifo", Format: "xml",
	})
	got := pointers(t, err)
	slices.Sort(got)
	want := []string{
		"/description", "/event_types/1", "/event_types/2", "/format", "/headers/Host", "/headers/X~0B", "/headers/X~1A",
		"/max_in_flight", "/metadata", "/ordering", "/rate_limit/limit", "/rate_limit/per", "/retry_schedule/1", "/signature/secret", "/timeout", "/uid", "/url",
	}
	if !slices.Equal(got, want) {
		t.Errorf("at fault are\n%v, want\n%v", got, want)
	}
	if n := w.count(`SELECT FROM endpoints`) + w.count(`SELECT FROM endpoint_secrets`); n != 0 {
		t.Errorf("%d rows are left of it", n)
	}
}

func TestTwoEndpointsOfATenantDoNotShareAUID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant, neighbour := w.tenant(), w.tenant()
	named := func(n *subscriptions.NewEndpoint) { n.UID = ptr("hook") }
	first, _ := w.endpoint(tenant, named)
	theirs, _ := w.endpoint(neighbour, named)
	_, _, err := w.CreateEndpoint(t.Context(), tenant, subscriptions.NewEndpoint{URL: "https://a.example", UID: ptr("hook")})
	wantCode(t, "a second one", err, fault.Conflict)
	second, _ := w.endpoint(tenant, nil)
	_, err = w.UpdateEndpoint(t.Context(), tenant, ref(second), "", subscriptions.EndpointPatch{UID: put("hook")})
	wantCode(t, "a patch", err, fault.Conflict)
	if got := must(w.Endpoint(t.Context(), neighbour, "hook"))(t); got.ID != theirs.ID {
		t.Error("the neighbour's uid finds another's endpoint")
	}
	must(w.DeleteEndpoint(t.Context(), tenant, "hook"))(t)
	must(w.UpdateEndpoint(t.Context(), tenant, ref(second), "", subscriptions.EndpointPatch{UID: put("hook")}))(t)
	if got := must(w.Endpoint(t.Context(), tenant, "hook"))(t); got.ID != second.ID || got.ID == first.ID {
		t.Error("the uid does not find its new bearer")
	}
}

// Every call that names an endpoint: unknown, deleted, another tenant's, malformed. The patch and the secret are bad as
// well: what cannot be seen is not judged.
func TestNoSuchEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	theirs, _ := w.endpoint(w.tenantIn(tenant.ID.Shard), func(n *subscriptions.NewEndpoint) { n.UID = ptr("theirs") })
	elsewhere, _ := w.endpoint(w.tenantIn((tenant.ID.Shard+1)%id.Buckets), nil)
	own, _ := w.endpoint(tenant, nil)
	gone, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.UID = ptr("gone") })
	must(w.DeleteEndpoint(t.Context(), tenant, ref(gone)))(t)
	before := must(w.EndpointByID(t.Context(), theirs.ID))(t)
	for _, name := range []string{
		ref(theirs), "theirs", ref(gone), "gone", "nobody", "", "ep_", id.Tenant.Format(tenant.ID), "a\x00", "\xff", "a b",
		ref(elsewhere), id.Endpoint.Format(id.ID{Shard: tenant.ID.Shard, N: elsewhere.ID.N}),
		id.Endpoint.Format(id.ID{Shard: elsewhere.ID.Shard, N: own.ID.N}), id.Endpoint.Format(id.ID{Shard: 3, N: 77}),
	} {
		_, err := w.Endpoint(t.Context(), tenant, name)
		wantCode(t, "read "+name, err, fault.NotFound)
		_, err = w.UpdateEndpoint(t.Context(), tenant, name, `"99"`, subscriptions.EndpointPatch{URL: put("ftp://x")})
		wantCode(t, "change "+name, err, fault.NotFound)
		_, err = w.DeleteEndpoint(t.Context(), tenant, name)
		wantCode(t, "delete "+name, err, fault.NotFound)
		_, err = w.Secret(t.Context(), tenant, name)
		wantCode(t, "secret of "+name, err, fault.NotFound)
		_, _, err = w.RotateSecret(t.Context(), tenant, name, "short", -1)
		wantCode(t, "rotate "+name, err, fault.NotFound)
	}
	if after := must(w.EndpointByID(t.Context(), theirs.ID))(t); !reflect.DeepEqual(after, before) {
		t.Errorf("the neighbour's endpoint became %+v", after)
	}
	_, err := w.EndpointByID(t.Context(), id.ID{Shard: 3, N: 77})
	wantCode(t, "by an id that is nobody's", err, fault.NotFound)
}

func TestEndpointsArePagedNewestFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	var want []id.ID
	for range 5 {
		e, _ := w.endpoint(tenant, nil)
		want = append([]id.ID{e.ID}, want...)
	}
	w.endpoint(w.tenant(), nil)
	must(w.DeleteEndpoint(t.Context(), tenant, id.Endpoint.Format(want[1])))(t)
	want = slices.Delete(want, 1, 2)
	var got []id.ID
	var before id.ID
	for range 10 { // pages, at most
		page := must(w.Endpoints(t.Context(), tenant, 3, before))(t)
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			got = append(got, e.ID)
		}
		before = got[len(got)-1]
		w.endpoint(tenant, nil) // arrives meanwhile, and shows nowhere
	}
	if !slices.Equal(got, want) {
		t.Errorf("the pages hold %v, want %v", got, want)
	}
}

func TestADeletedEndpointLeavesItsHistoryAndNoSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) {
		n.Headers, n.Scheme = headers("Authorization", "Bearer x"), signer.StandardEd25519
	})
	at := w.clock.advance(time.Minute)
	deleted := must(w.DeleteEndpoint(t.Context(), tenant, ref(e)))(t)
	if deleted.DeletedAt == nil || !deleted.DeletedAt.Equal(at) || deleted.Version != 2 || deleted.URL != e.URL {
		t.Errorf("deleted is %+v", deleted)
	}
	read := must(w.EndpointByID(t.Context(), e.ID))(t)
	if read.DeletedAt == nil || !read.DeletedAt.Equal(at) || read.Version != 2 || read.URL != e.URL || read.Unreadable != "" {
		t.Errorf("history finds %+v", read)
	}
	if n := w.count(`SELECT FROM endpoint_secrets UNION ALL SELECT FROM endpoints WHERE headers_sealed IS NOT NULL`); n != 0 {
		t.Errorf("%d secrets are left", n)
	}
	target := w.target(e)
	if !target.Deleted || target.Err != nil || len(target.Secrets) != 0 || target.URL != e.URL {
		t.Errorf("the target is %+v", target)
	}
}
