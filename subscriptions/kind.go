package subscriptions

import (
	"errors"

	"github.com/postrider/postrider/internal/fault"
)

// Kind is how an endpoint gets its deliveries. Its value is what the API and the database show.
type Kind string

// The kinds. An endpoint keeps its own for ever: what waits for it waits in a place that is made for that kind.
const (
	Push Kind = "push" // they are posted to its URL
	Pull Kind = "pull" // its owner fetches and acknowledges them, and it has no URL
)

// applyKind sets the kind of a new endpoint. Of one that has a kind, it may be named and not changed.
func applyKind(faults *fault.Fields, e *Endpoint, o Optional[Kind]) {
	const at = "/kind"
	switch {
	case !o.Given, o.Value != nil && *o.Value == e.Kind:
	case e.Kind != "":
		faults.Addf(at, "an endpoint stays what it was made: %s. Make another one", e.Kind)
	case *o.Value != Push && *o.Value != Pull:
		faults.Addf(at, "is neither %s nor %s", Push, Pull)
	default:
		e.Kind = *o.Value
	}
}

// urlOf is the rule for the URL of an endpoint of this kind.
func (r rules) urlOf(kind Kind) func(string) (string, error) {
	if kind != Pull {
		return r.url
	}
	return func(url string) (string, error) {
		if url != "" {
			return "", errors.New("an endpoint of kind pull has none: its owner fetches what waits for it")
		}
		return "", nil
	}
}

// checkPull refuses what is about sending, and would be passed over in silence where nothing is sent.
func checkPull(faults *fault.Fields, e Endpoint) {
	if e.Kind != Pull {
		return
	}
	for _, about := range []struct {
		at    string
		given bool
	}{
		{"/max_in_flight", e.MaxInFlight != nil},
		{"/rate_limit", e.RateLimit != nil},
		{"/timeout", e.Timeout != nil},
		{"/retry_schedule", e.RetrySchedule != nil},
		{"/tls", e.hasTLS()},
		{"/trace_context", e.TraceContext},
	} {
		if about.given {
			faults.Addf(about.at, "is about sending, and to an endpoint of kind %s nothing is sent", Pull)
		}
	}
	if e.Ordering == OrderingGroup {
		faults.Addf("/ordering", "an endpoint of kind %s gets the oldest first, and knows no groups", Pull)
	}
}
