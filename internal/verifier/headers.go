package verifier

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/postrider/postrider/signer"
)

// namesShown bounds how many headers a finding lists.
const namesShown = 30

// What a header of stripe holds: whole, so that it is known under any name, and so that it is none of standard's.
var (
	stripeValue = regexp.MustCompile(`(^|,)\s*t=[^,]*,.*v1=`)
	stripePart  = regexp.MustCompile(`(^|,)\s*(v1=|t=[0-9])`)
)

// detect finds the schemes whose signature the headers carry. standard and stripe may share a header's name: their values
// tell them apart.
func (q *Question) detect() (schemes []signer.Scheme) {
	value := q.near(signer.HeaderSignature)
	if q.stripeHeader() != "" {
		schemes = append(schemes, signer.Stripe)
		if strings.EqualFold(q.stripeHeader(), signer.HeaderSignature) {
			value = ""
		}
	}
	asymmetric := strings.HasPrefix(value, "v1a,") || strings.Contains(value, " v1a,")
	if asymmetric {
		schemes = append(schemes, signer.StandardEd25519)
	}
	if value != "" && (!asymmetric || strings.HasPrefix(value, "v1,") || strings.Contains(value, " v1,")) {
		schemes = append(schemes, signer.Standard)
	}
	if q.near(signer.HeaderGitHubSignature) != "" {
		schemes = append(schemes, signer.GitHub)
	}
	if q.near(signer.HeaderHexSignature) != "" {
		schemes = append(schemes, signer.TimestampedHex)
	}
	return schemes
}

// stripeHeader is the header that carries a signature in stripe's form, "" if there is none.
func (q *Question) stripeHeader() string {
	if q.Header != "" {
		return q.Header
	}
	for _, f := range q.Request.Fields {
		if stripeValue.MatchString(f.Value) {
			return f.Name
		}
	}
	if stripePart.MatchString(q.Request.Get(signer.DefaultStripeHeader)) {
		return signer.DefaultStripeHeader
	}
	return ""
}

// signatureHeader is the name of the header with the scheme's signature.
func (q *Question) signatureHeader(scheme signer.Scheme) string {
	if scheme == signer.Stripe {
		return signer.SignatureHeader(scheme, q.stripeHeader())
	}
	return signer.SignatureHeader(scheme, "")
}

// near gives a header's value, if need be of one whose name was written in another way, as CGI, gateways and logs do.
func (q *Question) near(name string) string {
	value, _ := q.nearField(name)
	return value
}

func (q *Question) nearField(name string) (value, under string) {
	if value = q.Request.Get(name); value != "" {
		return value, name
	}
	for _, f := range q.Request.Fields {
		if plainName(f.Name) == plainName(name) && f.Value != "" {
			return f.Value, f.Name
		}
	}
	return "", ""
}

func plainName(name string) string {
	return strings.TrimPrefix(strings.ReplaceAll(strings.ToLower(name), "_", "-"), "http-")
}

// names lists the headers that are there.
func (q *Question) names() string {
	var names []string
	for _, f := range q.Request.Fields {
		if name := strings.ToLower(f.Name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if more := len(names) - namesShown; more > 0 {
		names = append(names[:namesShown], fmt.Sprintf("and %d more", more))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

const passHeadersOn = "Have whatever stands in front of the receiver (proxy, gateway, framework, log) pass this header on as it is."

// noScheme is for a request that carries no signature.
func (q *Question) noScheme() []Finding {
	if q.Request.Get("X-Hub-Signature") != "" {
		return []Finding{{
			"sha1", "X-Hub-Signature is a signature by SHA-1, which no scheme here makes; " + signer.HeaderGitHubSignature + " is missing",
			"Look at " + signer.HeaderGitHubSignature + " instead, and have it passed on.",
		}}
	}
	return []Finding{{
		"not_signed", "no header carries a signature; the headers are " + q.names(), passHeadersOn +
			" A signature of the scheme stripe may stand in a header of any name: --signature-header names it.",
	}}
}

// headerFindings says which of the scheme's headers are missing, misspelt or not as they were sent.
func (c *claim) headerFindings() (out []Finding) {
	for _, name := range c.needed() {
		value, under := c.nearField(name)
		switch {
		case value == "":
			out = append(out, Finding{"header_missing", name + " is missing; the headers are " + c.names(), passHeadersOn})
		case !strings.EqualFold(under, name):
			out = append(out, Finding{"header_renamed", name + " is there as " + under, passHeadersOn})
		case c.Request.count(name) > 1:
			out = append(out, Finding{
				"header_repeated", name + " is there more than once; the first one counts",
				"Find out who adds it: Postrider sends it once.",
			})
		}
		if len(value) > 1 && strings.Trim(value, `"'`) != value {
			out = append(out, Finding{
				"header_quoted", name + " has quotation marks around its value",
				"Take them away: they were not sent, and they are no part of what is signed.",
			})
		}
	}
	if c.id != "" && strings.ContainsAny(c.id, ". ") {
		out = append(out, Finding{
			"id_unreadable", signer.HeaderID + " holds a dot or a blank, so that it is not clear what was signed",
			"Refuse it: ids of Postrider hold neither.",
		})
	}
	return out
}

// needed are the headers that the scheme verifies by.
func (c *claim) needed() []string {
	switch c.scheme {
	case signer.Standard, signer.StandardEd25519:
		return []string{signer.HeaderID, signer.HeaderTimestamp, signer.HeaderSignature}
	case signer.TimestampedHex:
		return []string{signer.HeaderHexTimestamp, signer.HeaderHexSignature}
	case signer.Stripe, signer.GitHub:
	}
	return []string{c.signatureHeader(c.scheme)}
}

// otherScheme is for a request that is signed, but in no scheme that was asked for.
func (c *claim) otherScheme() []Finding {
	others := c.detect()
	if len(others) == 0 || slices.Contains(others, c.scheme) {
		return nil
	}
	other := c.read(others[0])
	says := fmt.Sprintf("the request is signed in the scheme %s (%s) and not in %s", other.scheme, c.signatureHeader(other.scheme), c.scheme)
	for _, s := range c.Secrets {
		if other.verify(s.Text) == nil {
			says += "; in " + other.scheme.String() + " it verifies by " + s.Label
			break
		}
	}
	return []Finding{{
		"other_scheme", says,
		fmt.Sprintf("Verify it as %s, or change the endpoint's signature.scheme.", other.scheme),
	}}
}

// lengthFindings tells a body that is not as long as the request says.
func (c *claim) lengthFindings() []Finding {
	said, err := strconv.Atoi(c.Request.Get("Content-Length"))
	if err != nil || said == len(c.Request.Body) {
		return nil
	}
	do := "The capture lacks a part of the body, or it was changed: keep the bytes as they come."
	if bytes.HasPrefix(c.Request.Body[min(max(said, 0), len(c.Request.Body)):], []byte("\n")) {
		do = "An editor, or a shell, has put a line break behind the body: keep the bytes as they come."
	}
	return []Finding{{"length", fmt.Sprintf("Content-Length is %d and the body has %d bytes", said, len(c.Request.Body)), do}}
}
