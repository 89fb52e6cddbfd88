package alert_test

import (
	"fmt"
	"testing"

	"github.com/postrider/postrider/internal/alert"
)

func TestEvaluate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		facts  alert.Facts
		want   alert.Kind
		raises bool
	}{
		"a success":                         {facts: alert.Facts{AfterFailures: 5}},
		"a failure below the count":         {facts: alert.Facts{Failures: 4, AfterFailures: 5}},
		"the count is reached":              {facts: alert.Facts{Failures: 5, AfterFailures: 5}, want: alert.DeliveryFailing, raises: true},
		"the count is passed":               {facts: alert.Facts{Failures: 6, AfterFailures: 5}},
		"alerts by count are off":           {facts: alert.Facts{Failures: 0, AfterFailures: 0}},
		"failed for good":                   {facts: alert.Facts{Failures: 6, AfterFailures: 5, Failed: true}, want: alert.DeliveryFailed, raises: true},
		"failed for good as the count says": {facts: alert.Facts{Failures: 5, AfterFailures: 5, Failed: true}, want: alert.DeliveryFailed, raises: true},
		"unauthorized":                      {facts: alert.Facts{Failures: 1, AfterFailures: 5, Failed: true, Unauthorized: true}, want: alert.EndpointUnauthorized, raises: true},
		"blocked":                           {facts: alert.Facts{Failures: 1, AfterFailures: 5, Failed: true, Blocked: true}, want: alert.EndpointBlocked, raises: true},
		"disabled by a failure":             {facts: alert.Facts{Failures: 2, AfterFailures: 5, Disabled: true}, want: alert.EndpointDisabled, raises: true},
		"disabled by a success":             {facts: alert.Facts{AfterFailures: 5, Disabled: true}, want: alert.EndpointDisabled, raises: true},
		"gone":                              {facts: alert.Facts{Failures: 1, AfterFailures: 5, Failed: true, Gone: true}, want: alert.EndpointDead, raises: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, raises := alert.Evaluate(c.facts); raises != c.raises || (raises && got != c.want) {
				t.Errorf("Evaluate(%+v) = %v, %v; want %v, %v", c.facts, got, raises, c.want, c.raises)
			}
		})
	}
}

// The kinds' order is the schema's, which greatest() goes by.
func TestKindsAreTheSchemas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	var want []string
	err := w.db.QueryRow(t.Context(), `SELECT enum_range(NULL::alert_kind)::text[]`).Scan(&want)
	if err != nil || len(want) != len(alert.Kinds()) {
		t.Fatal(want, err)
	}
	for i, k := range alert.Kinds() {
		if back, err := alert.ParseKind(want[i]); k.String() != want[i] || err != nil || back != k {
			t.Errorf("kind %d is %v here and %s in the schema (%v)", i, k, want[i], err)
		}
	}
	if _, err := alert.ParseKind("nonsense"); err == nil {
		t.Error("nonsense is taken for a kind")
	}
}

func ExampleEvaluate() {
	kind, raises := alert.Evaluate(alert.Facts{Failures: 5, AfterFailures: 5})
	fmt.Println(kind, raises)
	// Output: delivery.failing true
}
