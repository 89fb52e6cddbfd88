package dispatcher

import "fmt"

// State is where a delivery stands. Its String is the metric's label, the log's value and, but for Held, the database's
// value: a delivery is held as long as its endpoint is disabled, which only endpoints.status says.
type State uint8

// The states of CONTRACT §2.
const (
	Scheduled State = iota
	Pending
	InFlight
	Held
	StateSucceeded
	StateFailed
	StateCancelled
)

var stateNames = [...]string{
	Scheduled: "scheduled", Pending: "pending", InFlight: "in_flight", Held: "held",
	StateSucceeded: "succeeded", StateFailed: "failed", StateCancelled: "cancelled",
}

func (s State) String() string { return stateNames[s] }

// Finished reports whether nothing more will happen to the delivery by itself.
func (s State) Finished() bool { return s >= StateSucceeded }

// States gives all of them.
func States() []State {
	return []State{Scheduled, Pending, InFlight, Held, StateSucceeded, StateFailed, StateCancelled}
}

// ParseState reads a state's name.
func ParseState(s string) (State, error) {
	for state, name := range stateNames {
		if name == s {
			return State(state), nil
		}
	}
	return 0, fmt.Errorf("no such state: %q", s)
}

// Reason says why a finished delivery is not a success.
type Reason string

// The reasons that the dispatcher gives.
const (
	ReasonExhausted        Reason = "exhausted"         // the last retry failed
	ReasonUnauthorized     Reason = "unauthorized"      // 401 or 403
	ReasonGone             Reason = "gone"              // 410
	ReasonBlocked          Reason = "blocked"           // the address is not allowed
	ReasonAborted          Reason = "aborted"           // webhook-delivery: abort-message
	ReasonPoisoned         Reason = "poisoned"          // its attempts kept dying with their process
	ReasonUnsendable       Reason = "unsendable"        // no request can be made of what is stored
	ReasonEndpointDead     Reason = "endpoint_dead"     // cancelled: the receiver said 410 to another delivery
	ReasonEndpointDeleted  Reason = "endpoint_deleted"  // cancelled
	ReasonTenantDeleted    Reason = "tenant_deleted"    // cancelled
	ReasonCancelledByUser  Reason = "cancelled_by_user" // cancelled through the API
	ReasonCancelledByEvent Reason = "event_cancelled"   // cancelled with its event
)
