package dispatcher

import "fmt"

// Outcome is the verdict on one attempt. Its String is the metric's label, the log's value and the database's value.
type Outcome uint8

// The outcomes of CONTRACT §2. Unknown is the zero value: the attempt's process died before it could say.
const (
	Unknown Outcome = iota
	Succeeded
	Unauthorized
	Gone
	Retryable
	Redirected
	Rejected
	Timeout
	DNSError
	ConnectError
	TLSError
	ProtocolError
	Blocked
)

var outcomeNames = [...]string{
	Unknown: "unknown", Succeeded: "succeeded", Unauthorized: "unauthorized", Gone: "gone", Retryable: "retryable",
	Redirected: "redirected", Rejected: "rejected", Timeout: "timeout", DNSError: "dns_error",
	ConnectError: "connect_error", TLSError: "tls_error", ProtocolError: "protocol_error", Blocked: "blocked",
}

// OutcomeCount is how many outcomes there are.
const OutcomeCount = len(outcomeNames)

func (o Outcome) String() string { return outcomeNames[o] }

// Outcomes gives all of them, in the order of the table.
func Outcomes() []Outcome {
	all := make([]Outcome, len(outcomeNames))
	for i := range all {
		all[i] = Outcome(i)
	}
	return all
}

// ParseOutcome reads an outcome's name.
func ParseOutcome(s string) (Outcome, error) {
	for o, name := range outcomeNames {
		if name == s {
			return Outcome(o), nil
		}
	}
	return Unknown, fmt.Errorf("no such outcome: %q", s)
}
