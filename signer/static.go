package signer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxHeaderName  = 128
	maxHeaderValue = 4 << 10 // bytes
)

// CheckStaticHeader says whether an endpoint may send a header of its own with every delivery. extraReserved names
// headers that this endpoint's signature takes (SignatureHeader). A refusal is an Invalid fault; it never repeats the
// value, which may be a credential, and repeats a name only where that is one of the reserved ones.
//
// The name is a token of RFC 9110, 5.6.2, up to 128 bytes, in any case, and none that Postrider, the connection or the
// body needs. The value is 1 to 4096 bytes of UTF-8 without outer blanks and, save tabs, without control characters;
// what is beyond ASCII goes out as its UTF-8 bytes (obs-text in RFC 9110, 5.5). An empty value is refused: it is nearly
// always a variable that was not set. So what passes here is sent as it stands; nothing is left to fail when a delivery
// goes out.
//
// Authorization, Cookie, X-Api-Key, Accept and the like are the owner's to use.
func CheckStaticHeader(name, value string, extraReserved ...string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if why := reserved(name); why != "" {
		return refuse("the header %s cannot be set: %s", name, why)
	}
	for _, other := range extraReserved {
		if fold(name) == fold(other) {
			return refuse("the header %s cannot be set: it carries this endpoint's signature", name)
		}
	}
	return checkValue(value)
}

// CheckSignatureHeader says whether a header may carry the stripe scheme's signature: any that an endpoint could set
// itself, and Webhook-Signature. Not Authorization or Cookie, which gateways take for credentials. A refusal is an
// Invalid fault.
func CheckSignatureHeader(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if strings.EqualFold(name, HeaderSignature) {
		return nil
	}
	if why := reserved(name); why != "" {
		return refuse("the header %s cannot carry the signature: %s", name, why)
	}
	switch fold(name) {
	case "authorization", "cookie":
		return refuse("the header %s cannot carry the signature: receivers take it for a credential", name)
	}
	return nil
}

// fold brings the spellings together that a receiver may not tell apart: HTTP ignores case, and CGI and its heirs
// (WSGI, Rack, PHP) turn both "-" and "_" into "_", so that webhook_id would stand in for webhook-id.
func fold(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// reserved says why a header cannot be set, or "".
func reserved(name string) string {
	const (
		ours       = "Postrider sets it"
		signature  = "it belongs to a signature scheme"
		connection = "it belongs to the connection, not to the message"
		content    = "it describes the body, which differs from event to event"
		repeats    = "it makes HTTP clients repeat a request by themselves"
	)
	folded := fold(name)
	switch folded {
	case "host", "user-agent", "accept-encoding":
		return ours
	case "x-hub-signature-256", "x-github-delivery", "x-github-event",
		"x-delivery-id", "x-delivery-timestamp", "x-delivery-signature":
		return signature
	case "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect", "http2-settings":
		return connection
	case "content-length", "content-type", "content-encoding", "content-range",
		"content-md5", "content-digest", "repr-digest", "digest":
		return content
	case "idempotency-key", "x-idempotency-key":
		return repeats
	}
	switch {
	case strings.HasPrefix(folded, "webhook-"), strings.HasPrefix(folded, "postrider-"):
		return "names that begin so are Postrider's own"
	case strings.HasPrefix(folded, "proxy-"):
		return connection
	}
	return ""
}

// checkName wants a token of RFC 9110, 5.6.2.
func checkName(name string) error {
	switch {
	case name == "":
		return refuse("a header needs a name")
	case len(name) > maxHeaderName:
		return refuse("a header's name has %d characters at most", maxHeaderName)
	}
	for i := range len(name) {
		if !isTokenChar(name[i]) {
			return refuse("a header's name holds letters, digits and any of !#$%%&'*+-.^_`|~ only: no blank, no colon")
		}
	}
	return nil
}

func isTokenChar(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c != 0 && strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

func checkValue(value string) error {
	switch {
	case value == "":
		return refuse("a header needs a value; leave the header out instead")
	case len(value) > maxHeaderValue:
		return refuse("a header's value has %d bytes at most", maxHeaderValue)
	case !utf8.ValidString(value):
		return refuse("a header's value has to be valid UTF-8")
	}
	for _, r := range value {
		if r == '\r' || r == '\n' {
			return refuse("a header's value cannot hold a line break")
		}
		if r != '\t' && unicode.IsControl(r) {
			return refuse("a header's value cannot hold a control character")
		}
	}
	if strings.TrimFunc(value, unicode.IsSpace) != value {
		return refuse("a header's value has a blank before or after it; give it without")
	}
	return nil
}
