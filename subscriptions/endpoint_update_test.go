package subscriptions_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

func TestPatchKeepsClearsAndReplaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	made, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) {
		n.UID, n.Description, n.EventTypes, n.Headers = ptr("u"), "d", []string{"a.*"}, headers("X-A", "1")
		n.MaxInFlight, n.Timeout, n.RetrySchedule = ptr(3), ptr(time.Second), []time.Duration{time.Minute}
		n.Metadata = map[string]any{"a": "b", "c": "d"}
		n.RateLimit, n.Ordering = &subscriptions.RateLimit{Limit: 100, Per: time.Second}, subscriptions.OrderingGroup
		n.Format, n.TraceContext = subscriptions.FormatCloudEvents, true
	})
	patch := func(p subscriptions.EndpointPatch) subscriptions.Endpoint {
		t.Helper()
		w.clock.advance(time.Second)
		got := must(w.UpdateEndpoint(t.Context(), tenant, ref(made), "", p))(t)
		if read := must(w.Endpoint(t.Context(), tenant, ref(made)))(t); !reflect.DeepEqual(read, got) {
			t.Errorf("the answer is\n%+v, a read gives\n%+v", got, read)
		}
		return got
	}
	same := subscriptions.EndpointPatch{
		UID: put("u"), URL: put(made.URL), Description: put("d"), EventTypes: put([]string{"a.*", "a.*"}),
		Headers: put(headers("X-A", "1")), Scheme: put(signer.Standard), SignatureHeader: put(""), MaxInFlight: put(3),
		Timeout: put(time.Second), RetrySchedule: put([]time.Duration{time.Minute}),
		Metadata: put(map[string]any{"a": "b", "c": "d"}), Status: ptr(subscriptions.Enabled),
		RateLimit: put(subscriptions.RateLimit{Limit: 100, Per: time.Second}), Ordering: put(subscriptions.OrderingGroup),
		Format: put(subscriptions.FormatCloudEvents), TraceContext: put(true),
	}
	for name, p := range map[string]subscriptions.EndpointPatch{"nothing": {}, "what it is": same} {
		if got := patch(p); !reflect.DeepEqual(got, made) {
			t.Errorf("%s changes it to %+v", name, got)
		}
	}
	got := patch(subscriptions.EndpointPatch{Timeout: put(2 * time.Second), Metadata: put(map[string]any{"a": "x"})})
	want := made
	want.Timeout, want.Metadata, want.Version, want.UpdatedAt = ptr(2*time.Second), map[string]any{"a": "x"}, 2, w.clock.now()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it became\n%+v, want\n%+v", got, want)
	}
	got = patch(subscriptions.EndpointPatch{
		UID: null[string](), Description: null[string](), EventTypes: null[[]string](), Headers: null[[]signer.Header](),
		MaxInFlight: null[int](), Timeout: null[time.Duration](), RetrySchedule: null[[]time.Duration](),
		Metadata: null[map[string]any](), RateLimit: null[subscriptions.RateLimit](), Ordering: null[subscriptions.Ordering](),
		Format: null[subscriptions.Format](), TraceContext: null[bool](),
	})
	if got.UID != nil || got.Description != "" || len(got.EventTypes)+len(got.Headers)+len(got.Metadata) != 0 ||
		got.MaxInFlight != nil || got.Timeout != nil || got.RetrySchedule != nil || got.RateLimit != nil ||
		got.Ordering != subscriptions.OrderingNone || got.Format != subscriptions.FormatRaw || got.TraceContext || got.Version != 3 || got.URL != made.URL {
		t.Errorf("nulls leave %+v", got)
	}
	_, err := w.UpdateEndpoint(t.Context(), tenant, ref(made), "", subscriptions.EndpointPatch{URL: null[string]()})
	if at := pointers(t, err); !slices.Equal(at, []string{"/url"}) {
		t.Errorf("without a URL: %v", at)
	}
}

func TestIfMatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	for _, test := range []struct {
		ifMatch string
		matches bool
	}{
		{"", true},
		{`"1"`, true},
		{`*`, true},
		{`"7", "1"`, true},
		{`"2"`, false},
		{`"0"`, false},
		{`1`, false},     // no entity tag
		{`W/"1"`, false}, // If-Match compares strongly (RFC 9110, 13.1.1)
		{`""`, false},
		{`"11"`, false},
		{`nonsense`, false},
	} {
		e, _ := w.endpoint(tenant, nil)
		got, err := w.UpdateEndpoint(t.Context(), tenant, ref(e), test.ifMatch, subscriptions.EndpointPatch{Description: put("x")})
		if test.matches {
			if err != nil || got.ETag() != `"2"` {
				t.Errorf("%s: %s, %v", test.ifMatch, got.ETag(), err)
			}
			continue
		}
		wantCode(t, test.ifMatch, err, fault.PreconditionFailed)
		if after := must(w.Endpoint(t.Context(), tenant, ref(e)))(t); !reflect.DeepEqual(after, e) {
			t.Errorf("%s changed it nevertheless", test.ifMatch)
		}
	}
	e, _ := w.endpoint(tenant, nil)
	_, err := w.UpdateEndpoint(t.Context(), tenant, ref(e), `"9"`, subscriptions.EndpointPatch{})
	wantCode(t, "a patch of nothing", err, fault.PreconditionFailed)
	_, err = w.UpdateEndpoint(t.Context(), tenant, ref(e), `"9"`, subscriptions.EndpointPatch{URL: put("ftp://x")})
	wantCode(t, "a bad patch", err, fault.Invalid)
}

// Of many who read version 1 and write, one gets through.
func TestIfMatchLetsOneThrough(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, nil)
	errs := make(chan error, 8)
	for i := range cap(errs) {
		go func() {
			_, err := w.UpdateEndpoint(t.Context(), tenant, ref(e), e.ETag(), subscriptions.EndpointPatch{Description: put(fmt.Sprint(i))})
			errs <- err
		}()
	}
	through := 0
	for range cap(errs) {
		if err := <-errs; err == nil {
			through++
		} else {
			wantCode(t, "a late one", err, fault.PreconditionFailed)
		}
	}
	if through != 1 {
		t.Errorf("%d got through", through)
	}
}

func TestStatusByItsOwner(t *testing.T) {
	t.Parallel()
	type status = subscriptions.Status
	for _, test := range []struct {
		from, want status
		changes    bool
	}{
		{subscriptions.Enabled, subscriptions.Enabled, false},
		{subscriptions.Enabled, subscriptions.Disabled, true},
		{subscriptions.Disabled, subscriptions.Disabled, false},
		{subscriptions.Disabled, subscriptions.Enabled, true},
		{subscriptions.Dead, subscriptions.Enabled, true},
		{subscriptions.Dead, subscriptions.Disabled, true},
	} {
		t.Run(string(test.from+" to "+test.want), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tenant := w.tenant()
			e, _ := w.endpoint(tenant, nil)
			w.exec(`UPDATE endpoints SET status = $1::text::endpoint_status, status_reason = CASE WHEN $1 <> 'enabled' THEN 'gone' END,
				consecutive_failures = 3, failing_since = $2, last_error = '410 Gone' WHERE id = $3`, string(test.from), w.clock.now(), e.ID.N)
			before := must(w.Endpoint(t.Context(), tenant, ref(e)))(t)
			at := w.clock.advance(time.Minute)
			got := must(w.UpdateEndpoint(t.Context(), tenant, ref(e), "", subscriptions.EndpointPatch{Status: &test.want}))(t)
			if !test.changes {
				if !reflect.DeepEqual(got, before) {
					t.Errorf("it became %+v", got)
				}
				return
			}
			want := before
			want.Status, want.StatusReason, want.StatusChangedAt = test.want, nil, at
			want.Version, want.UpdatedAt = 2, at
			if test.want == subscriptions.Enabled {
				want.ConsecutiveFailures, want.FailingSince, want.LastError = 0, nil, nil
			} else {
				want.StatusReason = ptr("disabled_by_user")
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("it became\n%+v, want\n%+v", got, want)
			}
		})
	}
}

func TestNobodySetsAnEndpointDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, nil)
	for _, status := range []subscriptions.Status{subscriptions.Dead, "", "ENABLED", "paused"} {
		_, err := w.UpdateEndpoint(t.Context(), tenant, ref(e), "", subscriptions.EndpointPatch{Status: &status, Timeout: put(time.Hour)})
		if got := pointers(t, err); !slices.Equal(got, []string{"/timeout", "/status"}) {
			t.Errorf("%q: at fault are %v", status, got)
		}
	}
}

// Attempts name a version: the newest row at or below it tells how they were sent.
func TestVersionsKeepWhatAttemptsWereSentWith(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.Headers = headers("X-A", "1") })
	type patch = subscriptions.EndpointPatch
	for i, p := range []patch{
		{Description: put("2: not sent")},
		{URL: put("https://example.com/3")},
		{Timeout: put(time.Second)}, // 4
		{Headers: put(headers("X-A", "5"))},
		{Status: ptr(subscriptions.Disabled)},          // 6
		{Scheme: put(signer.Stripe)},                   // 7
		{SignatureHeader: put("X-Sig")},                // 8
		{Headers: null[[]signer.Header]()},             // 9
		{EventTypes: put([]string{"a"})},               // 10
		{Format: put(subscriptions.FormatCloudEvents)}, // 11
	} {
		if got := must(w.UpdateEndpoint(t.Context(), tenant, ref(e), "", p))(t); got.Version != i+2 {
			t.Errorf("change %d makes version %d", i, got.Version)
		}
	}
	if _, _, err := w.RotateSecret(t.Context(), tenant, ref(e), "", time.Hour); err != nil { // 12
		t.Fatal(err)
	}
	rows, err := w.pool.Query(t.Context(), `SELECT version || ' ' || url || ' ' || header_names::text || ' ' || scheme || ' ' || signature_header || ' ' || format
		FROM endpoint_versions WHERE shard = $1 AND endpoint_id = $2 ORDER BY version`, e.ID.Shard, e.ID.N)
	if err != nil {
		t.Fatal(err)
	}
	got := must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
	want := []string{
		"1 https://example.com/hook {X-A} standard  raw",
		"3 https://example.com/3 {X-A} standard  raw",
		"5 https://example.com/3 {X-A} standard  raw",
		"7 https://example.com/3 {X-A} stripe  raw",
		"8 https://example.com/3 {X-A} stripe X-Sig raw",
		"9 https://example.com/3 {} stripe X-Sig raw",
		"11 https://example.com/3 {} stripe X-Sig cloudevents",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the versions are\n%q, want\n%q", got, want)
	}
	if now := must(w.Endpoint(t.Context(), tenant, ref(e)))(t); now.Version != 12 {
		t.Errorf("a rotation makes version %d", now.Version)
	}
}

func TestChangeOfScheme(t *testing.T) {
	t.Parallel()
	const typed = "It's a Secret to Everybody"
	for _, test := range []struct {
		from, to     signer.Scheme
		first, given string // "": made
		keeps        bool
	}{
		{from: signer.Standard, to: signer.Stripe, keeps: true},
		{from: signer.Standard, to: signer.GitHub, keeps: true},
		{from: signer.Stripe, to: signer.Standard, first: whsec(1), keeps: true},
		{from: signer.Stripe, to: signer.Standard, first: typed},
		{from: signer.GitHub, to: signer.TimestampedHex, first: typed, keeps: true},
		{from: signer.GitHub, to: signer.Standard, first: typed},
		{from: signer.GitHub, to: signer.Standard, first: typed, given: whsec(2)},
		{from: signer.Standard, to: signer.GitHub, given: typed},
		{from: signer.Standard, to: signer.StandardEd25519},
		{from: signer.StandardEd25519, to: signer.GitHub}, // its text would do, but no receiver has it
		{from: signer.StandardEd25519, to: signer.Standard, given: whsec(3)},
	} {
		t.Run(fmt.Sprintf("%s to %s, %q, %q", test.from, test.to, test.first, test.given), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tenant := w.tenant()
			e, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.Scheme = test.from })
			overlap := time.Hour // it does not outlive its scheme
			if !test.from.SupportsOverlap() {
				overlap = 0
			}
			_, current, err := w.RotateSecret(t.Context(), tenant, ref(e), test.first, overlap)
			if err != nil {
				t.Fatal(err)
			}
			p := subscriptions.EndpointPatch{Scheme: put(test.to)}
			if test.given != "" {
				p.Secret = put(test.given)
			}
			got := must(w.UpdateEndpoint(t.Context(), tenant, ref(e), "", p))(t)
			minted := got.Minted.Reveal()
			want := minted
			if test.keeps {
				want = current.Reveal()
			}
			if signs := w.signing(tenant, e); !slices.Equal(signs, []string{want}) {
				t.Errorf("%q sign, want %q alone", signs, want)
			}
			if (minted == "") != test.keeps || test.given != "" && minted != test.given {
				t.Errorf("minted is %q", minted)
			}
			if (got.PublicKey != "") != (test.to == signer.StandardEd25519) || got.PublicKey != got.Minted.PublicKey() {
				t.Errorf("the public key is %q", got.PublicKey)
			}
			if n := w.count(`SELECT FROM endpoint_secrets`); n != 1 {
				t.Errorf("%d secrets are kept", n)
			}
			if read := must(w.Endpoint(t.Context(), tenant, ref(e)))(t); read.Minted.Reveal() != "" || read.Scheme != test.to {
				t.Errorf("it reads %+v", read)
			}
		})
	}
}

func TestASecretOnlyComesWithAnotherScheme(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, secret := w.endpoint(tenant, nil)
	type patch = subscriptions.EndpointPatch
	for i, p := range []patch{
		{Secret: put(whsec(1))},
		{Secret: put(whsec(1)), Scheme: put(signer.Standard)},
		{Secret: null[string]()},
		{Secret: null[string](), Scheme: put(signer.Stripe)},
		{Secret: put("short"), Scheme: put(signer.Stripe)},
	} {
		_, err := w.UpdateEndpoint(t.Context(), tenant, ref(e), "", p)
		if got := pointers(t, err); !slices.Equal(got, []string{"/signature/secret"}) {
			t.Errorf("%d: at fault are %v", i, got)
		}
	}
	if got := w.signing(tenant, e); !slices.Equal(got, []string{secret.Reveal()}) {
		t.Errorf("%v sign", got)
	}
	stripe, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.Scheme, n.SignatureHeader = signer.Stripe, "X-Sig" })
	got := must(w.UpdateEndpoint(t.Context(), tenant, ref(stripe), "", patch{Scheme: null[signer.Scheme]()}))(t)
	if got.Scheme != signer.Standard || got.SignatureHeader != "" {
		t.Errorf("null leaves %s, %q", got.Scheme, got.SignatureHeader)
	}
}
