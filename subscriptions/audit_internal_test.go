package subscriptions

import (
	"reflect"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/signer"
)

// Each setting that an owner can change is told of in the audit log when it changes, and nothing else is.
func TestEverySettingIsTold(t *testing.T) {
	t.Parallel()
	one, second, uid := 1, time.Second, "u"
	with := func(change func(*Endpoint)) Endpoint {
		e := Endpoint{URL: "https://a.example/", Scheme: signer.Standard, Ordering: OrderingNone, Format: FormatRaw, Status: Enabled, Metadata: map[string]any{}}
		change(&e)
		return e
	}
	none := with(func(*Endpoint) {})
	tests := map[string]Endpoint{
		"UID":             with(func(e *Endpoint) { e.UID = &uid }),
		"URL":             with(func(e *Endpoint) { e.URL = "https://b.example/" }),
		"Description":     with(func(e *Endpoint) { e.Description = "d" }),
		"EventTypes":      with(func(e *Endpoint) { e.EventTypes = []string{"a"} }),
		"Filter":          with(func(e *Endpoint) { e.Filter = &uid }),
		"Headers":         with(func(e *Endpoint) { e.Headers = []signer.Header{{Name: "A", Value: "b"}} }),
		"Scheme":          with(func(e *Endpoint) { e.Scheme = signer.Stripe }),
		"SignatureHeader": with(func(e *Endpoint) { e.SignatureHeader = "X" }),
		"MaxInFlight":     with(func(e *Endpoint) { e.MaxInFlight = &one }),
		"RateLimit":       with(func(e *Endpoint) { e.RateLimit = &RateLimit{Limit: 1, Per: time.Second} }),
		"Ordering":        with(func(e *Endpoint) { e.Ordering = OrderingGroup }),
		"TraceContext":    with(func(e *Endpoint) { e.TraceContext = true }),
		"Format":          with(func(e *Endpoint) { e.Format = FormatCloudEvents }),
		"Timeout":         with(func(e *Endpoint) { e.Timeout = &second }),
		"RetrySchedule":   with(func(e *Endpoint) { e.RetrySchedule = []time.Duration{time.Second} }),
		"TLS":             with(func(e *Endpoint) { e.TLS.Certificate = "PEM" }),
		"Metadata":        with(func(e *Endpoint) { e.Metadata = map[string]any{"a": "b"} }),
		"Status":          with(func(e *Endpoint) { e.Status = Disabled }),
	}
	patch := reflect.TypeFor[EndpointPatch]()
	for i := range patch.NumField() {
		name := patch.Field(i).Name
		after, here := tests[name]
		if name == "Secret" || name == "Kind" { // one changes with the scheme alone, and is told of as minted; the other never does
			continue
		}
		if !here {
			t.Errorf("%s can be changed: have endpointChanges tell of it, and add it here", name)
			continue
		}
		entries := endpointEntries(none, after, signer.Secret{}, false)
		want := audit.EndpointUpdated
		if name == "Status" {
			want = audit.EndpointStatusChanged
		}
		if len(entries) != 1 || entries[0].Action != want {
			t.Errorf("a change of %s leaves %+v", name, entries)
		}
	}
	if entries := endpointEntries(none, none, signer.Secret{}, false); len(entries) > 0 {
		t.Errorf("no change leaves %+v", entries)
	}
}
