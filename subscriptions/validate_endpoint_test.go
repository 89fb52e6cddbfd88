package subscriptions_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// Each value at its border, in a new endpoint and in a patch of an existing one: both are judged alike.
func TestEndpointValues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	manyHeaders := func(n, size int) (out []signer.Header) {
		for i := range n {
			out = append(out, signer.Header{Name: fmt.Sprintf("X-%02d", i), Value: strings.Repeat("v", size)})
		}
		return out
	}
	manyPatterns := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("a.%d", i))
		}
		return out
	}
	type patch = subscriptions.EndpointPatch
	type rate = subscriptions.RateLimit
	for i, test := range []struct {
		p  patch
		at string // "" is taken
	}{
		{patch{URL: put("https://example.com/" + strings.Repeat("x", 2028))}, ""},
		{patch{URL: put("https://example.com/" + strings.Repeat("x", 2029))}, "/url"},
		{patch{URL: put("")}, "/url"},
		{patch{URL: put("http://example.com")}, "/url"}, // what the address check refuses
		{patch{URL: put("https://example.com/\x00")}, "/url"},
		{patch{URL: put("https://example.com/\xff")}, "/url"},
		{patch{UID: put("a:b.c_d-e")}, ""},
		{patch{UID: put("")}, "/uid"},
		{patch{UID: put("dlv_1")}, "/uid"},
		{patch{UID: put("a b")}, "/uid"},
		{patch{Description: put(strings.Repeat("ö", 1000))}, ""},
		{patch{Description: put(strings.Repeat("ö", 1001))}, "/description"},
		{patch{Description: put("a\x00")}, "/description"},
		{patch{EventTypes: put(manyPatterns(100))}, ""},
		{patch{EventTypes: put(manyPatterns(101))}, "/event_types"},
		{patch{EventTypes: put([]string{"a", "b", ""})}, "/event_types/2"},
		{patch{Headers: put(manyHeaders(32, 1))}, ""},
		{patch{Headers: put(manyHeaders(33, 1))}, "/headers"},
		{patch{Headers: put(manyHeaders(2, 4092))}, ""}, // 8 KiB with the names
		{patch{Headers: put(manyHeaders(3, 2727))}, "/headers"},
		{patch{Headers: put(headers("X-A", "1", "X-B", "2", "x-a", "3"))}, "/headers/x-a"},
		{patch{Scheme: put(signer.Scheme("md5"))}, "/signature/scheme"},
		{patch{Scheme: put(signer.Scheme("Standard"))}, "/signature/scheme"},
		{patch{SignatureHeader: put("X-Sig")}, "/signature/header"}, // only stripe has the choice
		{patch{MaxInFlight: put(1)}, ""},
		{patch{MaxInFlight: put(0)}, "/max_in_flight"},
		{patch{MaxInFlight: put(1025)}, "/max_in_flight"},
		{patch{RateLimit: put(rate{1, time.Millisecond})}, ""},
		{patch{RateLimit: put(rate{10_000, time.Second})}, ""},
		{patch{RateLimit: put(rate{10_000, 24 * time.Hour})}, ""},
		{patch{RateLimit: put(rate{0, time.Second})}, "/rate_limit/limit"},
		{patch{RateLimit: put(rate{10_001, time.Hour})}, "/rate_limit/limit"},
		{patch{RateLimit: put(rate{1, 0})}, "/rate_limit/per"},
		{patch{RateLimit: put(rate{1, -time.Second})}, "/rate_limit/per"},
		{patch{RateLimit: put(rate{1, 24*time.Hour + time.Millisecond})}, "/rate_limit/per"},
		{patch{RateLimit: put(rate{1, time.Second + time.Microsecond})}, "/rate_limit/per"},
		{patch{RateLimit: put(rate{10_000, 999 * time.Millisecond})}, "/rate_limit"}, // more than 10,000 a second
		{patch{Ordering: put(subscriptions.OrderingGroup)}, ""},
		{patch{Ordering: put(subscriptions.Ordering("Group"))}, "/ordering"},
		{patch{Format: put(subscriptions.FormatCloudEvents)}, ""},
		{patch{Format: put(subscriptions.Format("CloudEvents"))}, "/format"},
		{patch{Timeout: put(100 * time.Millisecond)}, ""},
		{patch{Timeout: put(30 * time.Second)}, ""}, // half of the lease
		{patch{Timeout: put(99 * time.Millisecond)}, "/timeout"},
		{patch{Timeout: put(30*time.Second + time.Millisecond)}, "/timeout"},
		{patch{Timeout: put(time.Second + time.Microsecond)}, "/timeout"},
		{patch{Timeout: put(-time.Second)}, "/timeout"},
		{patch{RetrySchedule: put(slices.Repeat([]time.Duration{time.Millisecond}, 50))}, ""},
		{patch{RetrySchedule: put(slices.Repeat([]time.Duration{time.Millisecond}, 51))}, "/retry_schedule"},
		{patch{RetrySchedule: put([]time.Duration{})}, "/retry_schedule"},
		{patch{RetrySchedule: put([]time.Duration{0})}, "/retry_schedule/0"},
		{patch{RetrySchedule: put([]time.Duration{time.Second, 30*24*time.Hour + time.Millisecond})}, "/retry_schedule/1"},
		{patch{RetrySchedule: put([]time.Duration{time.Second + time.Nanosecond})}, "/retry_schedule/0"},
		{patch{Metadata: put(map[string]any{"x": strings.Repeat("x", 16<<10)})}, "/metadata"},
	} {
		e, _ := w.endpoint(tenant, nil)
		_, patchErr := w.UpdateEndpoint(t.Context(), tenant, ref(e), "", test.p)
		_, _, createErr := w.CreateEndpoint(t.Context(), tenant, asNew(test.p))
		for act, err := range map[string]error{"patch": patchErr, "create": createErr} {
			if act == "create" && fault.Is(err, fault.Conflict) && test.p.UID.Given {
				continue // the patched one has the uid now, so it was good
			}
			switch {
			case test.at == "" && err != nil:
				t.Errorf("%s %d: %v", act, i, err)
			case test.at != "":
				if got := pointers(t, err); !slices.Equal(got, []string{test.at}) {
					t.Errorf("%s %d: at fault are %v, want %s", act, i, got, test.at)
				}
			}
		}
	}
}

// asNew makes a new endpoint of what a patch gives.
func asNew(p subscriptions.EndpointPatch) subscriptions.NewEndpoint {
	n := subscriptions.NewEndpoint{URL: "https://example.com", UID: p.UID.Value, MaxInFlight: p.MaxInFlight.Value, Timeout: p.Timeout.Value, RateLimit: p.RateLimit.Value}
	fill(&n.Ordering, p.Ordering)
	fill(&n.Format, p.Format)
	fill(&n.URL, p.URL)
	fill(&n.Description, p.Description)
	fill(&n.EventTypes, p.EventTypes)
	fill(&n.Headers, p.Headers)
	fill(&n.Scheme, p.Scheme)
	fill(&n.SignatureHeader, p.SignatureHeader)
	fill(&n.RetrySchedule, p.RetrySchedule)
	fill(&n.Metadata, p.Metadata)
	return n
}

func fill[T any](place *T, o subscriptions.Optional[T]) {
	if o.Value != nil {
		*place = *o.Value
	}
}

// The names and values of FC-017 and FC-018: all that could not be sent, or would stand in for a header of ours, is
// refused when it is saved.
func TestStaticHeadersThatWouldHarmAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, nil)
	for _, h := range []signer.Header{
		{Name: "Webhook-Signature", Value: "x"},
		{Name: "webhook-id", Value: "x"},
		{Name: " content-type ", Value: "text/plain"},
		{Name: "HOST", Value: "evil"},
		{Name: "Content-Length", Value: "1"},
		{Name: "Transfer-Encoding", Value: "chunked"},
		{Name: "Connection", Value: "upgrade"},
		{Name: "Expect", Value: "100-continue"},
		{Name: "Postrider-Attempt", Value: "1"},
		{Name: "x-hub-signature-256", Value: "x"},
		{Name: "Idempotency-Key", Value: "x"},
		{Name: "X A", Value: "x"},
		{Name: "X:Y", Value: "x"},
		{Name: "", Value: "x"},
		{Name: "X-A", Value: "a\r\nX-Injected: 1"},
		{Name: "X-A", Value: "a\x00b"},
		{Name: "X-A", Value: ""},
		{Name: "X-A", Value: "\xff"},
	} {
		want := []string{"/headers/" + h.Name}
		_, _, err := w.CreateEndpoint(t.Context(), tenant, subscriptions.NewEndpoint{URL: "https://a.example", Headers: []signer.Header{h}})
		if got := pointers(t, err); !slices.Equal(got, want) {
			t.Errorf("create with %q: %v", h, got)
		}
		_, err = w.UpdateEndpoint(t.Context(), tenant, ref(e), "", subscriptions.EndpointPatch{Headers: put([]signer.Header{h})})
		if got := pointers(t, err); !slices.Equal(got, want) {
			t.Errorf("patch with %q: %v", h, got)
		}
	}
	good := headers("X-A", "a:b:c", "X-B", "Café") // sent as typed
	made, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.Headers = good })
	if target := w.target(made); !slices.Equal(target.Headers, good) {
		t.Errorf("an attempt sends %q", target.Headers)
	}
}

// FC-013.
func TestBadSecretsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, nil)
	for _, text := range []string{
		"whsec_", "whsec_!!!!", "whsec_QUJD", "v1,whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX\n",
		" whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "   ",
	} {
		_, _, err := w.CreateEndpoint(t.Context(), tenant, subscriptions.NewEndpoint{URL: "https://a.example", Secret: text})
		if got := pointers(t, err); !slices.Equal(got, []string{"/signature/secret"}) {
			t.Errorf("create with %q: %v", text, got)
		}
		_, _, err = w.RotateSecret(t.Context(), tenant, ref(e), text, 0)
		if got := pointers(t, err); !slices.Equal(got, []string{"/secret"}) {
			t.Errorf("rotate to %q: %v", text, got)
		}
	}
}

// A signature header may not be a static one, whichever of them comes later.
func TestTheSignatureHasItsHeaderAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	type patch = subscriptions.EndpointPatch
	e, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) {
		n.Scheme, n.SignatureHeader, n.Headers = signer.Stripe, "X-Sig", headers("X-Other", "1")
	})
	for i, test := range []struct {
		p    patch
		want []string
	}{
		{patch{Headers: put(headers("x_sig", "1"))}, []string{"/headers/x_sig"}},
		{patch{SignatureHeader: put("x-other")}, []string{"/headers/X-Other"}},
		{patch{SignatureHeader: put("Authorization")}, []string{"/signature/header"}},
		{patch{SignatureHeader: put("X Y")}, []string{"/signature/header"}},
		{patch{SignatureHeader: put("Host"), Headers: put(headers("Host", "x"))}, []string{"/signature/header", "/headers/Host"}},
		{patch{Scheme: put(signer.GitHub), SignatureHeader: put("X-Sig")}, []string{"/signature/header"}},
	} {
		_, err := w.UpdateEndpoint(t.Context(), tenant, ref(e), "", test.p)
		if got := pointers(t, err); !slices.Equal(got, test.want) {
			t.Errorf("%d: at fault are %v, want %v", i, got, test.want)
		}
	}
	swapped := must(w.UpdateEndpoint(t.Context(), tenant, ref(e), "", patch{
		SignatureHeader: put("X-Other"), Headers: put(headers("X-Sig", "1")),
	}))(t)
	if swapped.SignatureHeader != "X-Other" || swapped.Headers[0].Name != "X-Sig" {
		t.Errorf("it became %+v", swapped)
	}
	if got := must(w.UpdateEndpoint(t.Context(), tenant, ref(e), "", patch{SignatureHeader: null[string]()}))(t); got.SignatureHeader != "" {
		t.Errorf("null leaves %q", got.SignatureHeader)
	}
}

// A bound that was made narrower since an endpoint was saved does not stand in the way of other changes.
func TestOnlyWhatIsGivenIsJudged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, nil)
	w.exec(`UPDATE endpoints SET url = 'http://10.0.0.1', timeout_ms = 600000 WHERE id = $1`, e.ID.N)
	got := must(w.UpdateEndpoint(t.Context(), tenant, ref(e), "", subscriptions.EndpointPatch{Description: put("x")}))(t)
	if got.URL != "http://10.0.0.1" || *got.Timeout != 10*time.Minute || got.Description != "x" {
		t.Errorf("it became %+v", got)
	}
	if target := w.target(e); target.Timeout != 30*time.Second {
		t.Errorf("an attempt may take %v, longer than its lease allows", target.Timeout)
	}
}
