package dispatcher

import "testing"

// Whoever reads of a failure reads what to do about it, whatever it is.
func TestEveryFailureHasARemedy(t *testing.T) {
	t.Parallel()
	for _, o := range Outcomes() {
		d := Delivery{State: StateFailed, Reason: ReasonExhausted, LastOutcome: &o}
		switch o {
		case Succeeded, Unauthorized, Gone, Blocked: // a success, and those that have reasons of their own
			continue
		default:
			if Remedy(d, false) == "" {
				t.Errorf("nothing is said of %s", o)
			}
		}
	}
	for _, r := range []Reason{
		ReasonUnauthorized, ReasonGone, ReasonBlocked, ReasonAborted, ReasonPoisoned, ReasonUnsendable, ReasonEndpointDead,
		ReasonEndpointDeleted, ReasonTenantDeleted, ReasonCancelledByUser, ReasonCancelledByEvent,
	} {
		if Remedy(Delivery{State: StateFailed, Reason: r}, false) == "" {
			t.Errorf("nothing is said of %s", r)
		}
	}
	if Remedy(Delivery{State: Held, Reason: "failing"}, false) == "" {
		t.Error("nothing is said of a held one")
	}
	ok := Succeeded
	if got := Remedy(Delivery{State: StateSucceeded, LastOutcome: &ok}, false); got != "" {
		t.Errorf("a success needs none: %q", got)
	}
	late := Timeout
	if d := (Delivery{State: Pending, LastOutcome: &late}); Remedy(d, true) == Remedy(d, false) {
		t.Error("who fetches is told what is for receivers")
	}
	if got := Remedy(Delivery{State: Pending}, false); got != "" {
		t.Errorf("what was not tried needs none: %q", got)
	}
}
