// Package verifier judges a captured webhook: whether it verifies, and if not, what is wrong with it and what to do.
//
// It is pure: the request, the secrets and the time come in, a verdict goes out. It is for people who look for a fault, on
// their own machine. It tries a signature in ways that a receiver must not, so it is no receiver's check: that is
// signer.Verify, whose word alone makes a verdict "verified". No secret, and nothing made of one, is in a verdict.
package verifier

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/signer"
)

// Secret is one that may have signed, with what to call it by.
type Secret struct{ Label, Text string }

// Question is all there is to judge by.
type Question struct {
	Request   Request
	Scheme    signer.Scheme // "": whichever the headers show
	Header    string        // of the scheme stripe; "": its default, or the one that looks like it
	Secrets   []Secret
	Now       time.Time
	Tolerance time.Duration // 0: the request may be of any time
}

// Finding is one thing that was noticed. Code is for programs and does not change; the rest is for people.
type Finding struct {
	Code string `json:"code"`
	Says string `json:"says"`
	Do   string `json:"do"`
}

// Verdict is what came of a question. What a verified request has among its findings is good to know; what another one
// has keeps it from being verified.
type Verdict struct {
	Verified bool
	Scheme   signer.Scheme // "": the headers show none
	Secret   string        // the label of the secret that signed, also where something else is wrong; "": none did
	SignedAt time.Time     // zero: the scheme signs no time, or it cannot be read
	Findings []Finding
}

// Judge answers a question.
func Judge(q Question) Verdict {
	schemes := []signer.Scheme{q.Scheme}
	if q.Scheme == "" {
		schemes = q.detect()
	}
	if len(schemes) == 0 {
		return Verdict{Findings: q.noScheme()}
	}
	for _, scheme := range schemes {
		c := q.read(scheme)
		for i, s := range q.Secrets {
			if c.verify(s.Text) == nil {
				return Verdict{Verified: true, Scheme: scheme, Secret: s.Label, SignedAt: c.signedAt(), Findings: c.notes(i)}
			}
		}
	}
	return q.read(schemes[0]).diagnose()
}

// claim is what a request says about itself in the terms of one scheme. Values of headers with an unusual spelling count.
type claim struct {
	*Question
	scheme        signer.Scheme
	id, timestamp string // "": it has none
	signature     string // the whole header's value
	digests       []digest
}

// read finds a scheme's values in the request.
func (q *Question) read(scheme signer.Scheme) *claim {
	c := &claim{Question: q, scheme: scheme}
	c.signature = q.near(q.signatureHeader(scheme))
	switch scheme {
	case signer.Standard, signer.StandardEd25519:
		c.id, c.timestamp = q.near(signer.HeaderID), q.near(signer.HeaderTimestamp)
	case signer.Stripe:
		for part := range strings.SplitSeq(c.signature, ",") {
			if text, ok := strings.CutPrefix(strings.TrimSpace(part), "t="); ok {
				c.timestamp = text
			}
		}
	case signer.TimestampedHex:
		c.timestamp = q.near(signer.HeaderHexTimestamp)
	case signer.GitHub: // signs neither
	}
	c.digests = digests(c.signature)
	return c
}

// verify is what a receiver does. Where any time will do, the time of the request is taken for now.
func (c *claim) verify(secret string) error {
	now, tolerance := c.Now, c.Tolerance
	if tolerance <= 0 {
		tolerance = math.MaxInt64
		if at := c.signedAt(); !at.IsZero() {
			now = at
		}
	}
	return signer.Verify(c.scheme, c.Question.signatureHeader(c.scheme), secret, c.Request.Get, c.Request.Body, now, tolerance)
}

// signedAt is the timestamp, if it can be read.
func (c *claim) signedAt() time.Time {
	seconds, err := strconv.ParseInt(c.timestamp, 10, 64)
	if err != nil || len(c.timestamp) > 12 || seconds < 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// diagnose says why a request does not verify. What was found by trying comes first: it is certain.
func (c *claim) diagnose() Verdict {
	v := Verdict{Scheme: c.scheme, SignedAt: c.signedAt()}
	if v.Findings = c.otherScheme(); len(v.Findings) > 0 {
		return v
	}
	found := c.search()
	if found != nil {
		v.Secret = found.secret
		v.Findings = append(v.Findings, found.findings...)
	}
	v.Findings = append(v.Findings, c.headerFindings()...)
	timing := c.timeFindings()
	if found != nil && len(v.Findings) == 0 {
		for i := range timing {
			timing[i].Says += "; the signature itself is right"
		}
	}
	v.Findings = append(v.Findings, timing...)
	if found == nil {
		v.Findings = append(v.Findings, c.secretFindings()...)
		v.Findings = append(v.Findings, c.signatureFindings()...)
		v.Findings = append(v.Findings, c.noMatch(len(v.Findings))...)
	}
	v.Findings = append(v.Findings, c.lengthFindings()...)
	if len(v.Findings) == 0 {
		v.Findings = c.refusal()
	}
	return v
}

// refusal is for what the signature's check refuses and nothing here has a better word for.
func (c *claim) refusal() []Finding {
	err := errors.New("there is no secret to verify with")
	for _, s := range c.Secrets {
		if err = c.verify(s.Text); err != nil {
			break
		}
	}
	return []Finding{{"refused", err.Error(), "Compare the headers with those that the scheme " + c.scheme.String() + " sends."}}
}

// notes are what is good to know about a request that verifies by the secret i.
func (c *claim) notes(i int) (notes []Finding) {
	if c.scheme == signer.GitHub {
		notes = append(notes, Finding{
			"no_time", "the scheme github signs no time, so an old request that somebody sends again verifies too",
			"Remember webhook-id and drop what comes again.",
		})
	}
	if i > 0 {
		notes = append(notes, Finding{
			"other_secret", c.Secrets[0].Label + " did not sign it, " + c.Secrets[i].Label + " did",
			"While a secret is rotated a receiver has to try the new one and the old one.",
		})
	}
	if at := c.position(c.Secrets[i].Text); at > 0 {
		notes = append(notes, Finding{
			"rotation", "it is signature " + strconv.Itoa(at+1) + " of " + strconv.Itoa(len(c.digests)) +
				" in " + c.signatureHeader(c.scheme) + ": a secret is being rotated",
			"A receiver has to try each signature in the header: one that looks at the first alone refuses this request.",
		})
	}
	notes = append(notes, c.headerFindings()...) // of a header that is there twice receivers may take the other, or both
	return append(notes, c.lengthFindings()...)
}

// position is which of the header's signatures is the secret's.
func (c *claim) position(secret string) int {
	keys := c.keys(Secret{Text: secret})
	if len(keys) == 0 {
		return 0
	}
	for i, d := range c.digests {
		if keys[0].made(d, layout(c.scheme, c.id, c.timestamp), c.Request.Body) {
			return i
		}
	}
	return 0
}
