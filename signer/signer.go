// Package signer says how a delivery proves where it came from: the signature schemes, their secrets, the headers an
// attempt carries, and the receiver's check of them.
//
// It is pure: no clock, no database, no network, no logging. Time, randomness and the body's bytes come in as
// arguments, so the same input always gives the same headers. It does not keep, encrypt or rotate secrets, does not
// decide which secrets sign at a moment, and does not send anything.
package signer

// The headers that Postrider itself sends, spelled as they go on the wire. HTTP compares names without regard to case,
// but receivers' scripts do not always, so the spelling is kept: with net/http, set them by indexing the header map and
// not by Set, which would rewrite the lower-case ones.
const (
	HeaderID         = "webhook-id"            // the event's id, the same in every attempt of every delivery of the event
	HeaderTimestamp  = "webhook-timestamp"     // when this attempt was signed, whole Unix seconds
	HeaderSignature  = "webhook-signature"     // schemes standard and standard-ed25519
	HeaderDeliveryID = "postrider-delivery-id" // the delivery's id, the same in all its attempts
	HeaderEventType  = "postrider-event-type"  // the event's type
	HeaderAttempt    = "postrider-attempt"     // which attempt of the delivery this is: 1, 2, …
	HeaderReplay     = "postrider-replay"      // "true" where somebody had what is past sent again; else not there

	HeaderGitHubSignature = "X-Hub-Signature-256" // scheme github
	HeaderGitHubDelivery  = "X-GitHub-Delivery"   // scheme github: the delivery's id
	HeaderGitHubEvent     = "X-GitHub-Event"      // scheme github: the event's type

	HeaderHexID        = "x-delivery-id"        // scheme timestamped-hex: the delivery's id
	HeaderHexTimestamp = "x-delivery-timestamp" // scheme timestamped-hex: as HeaderTimestamp
	HeaderHexSignature = "x-delivery-signature" // scheme timestamped-hex

	// DefaultStripeHeader carries the stripe scheme's signature where the endpoint names no header of its own.
	DefaultStripeHeader = "Webhook-Signature"
)

// Header is one line of an attempt's head.
type Header struct{ Name, Value string }
