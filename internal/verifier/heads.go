package verifier

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/postrider/postrider/signer"
)

// head is what may stand before the body in the signed bytes.
type head struct {
	text string
	twist
}

// layout is what stands there rightly.
func layout(scheme signer.Scheme, id, timestamp string) string {
	switch scheme {
	case signer.Standard, signer.StandardEd25519:
		return id + "." + timestamp + "."
	case signer.Stripe, signer.TimestampedHex:
		return timestamp + "."
	case signer.GitHub:
	}
	return ""
}

// signs is how people write what a scheme signs.
func signs(scheme signer.Scheme) string {
	switch scheme {
	case signer.Standard, signer.StandardEd25519:
		return "<webhook-id>.<webhook-timestamp>.<body>"
	case signer.Stripe:
		return "<t>.<body>"
	case signer.TimestampedHex:
		return "<x-delivery-timestamp>.<body>"
	case signer.GitHub:
	}
	return "<body>"
}

// headsMost bounds how many are tried: a request may have any number of headers.
const headsMost = 40

// heads are the right one and those that are made by mistake: with the value of another header, or as other schemes do.
func (c *claim) heads() []head {
	out := []head{{text: layout(c.scheme, c.id, c.timestamp)}}
	add := func(text string, t twist) {
		if len(out) < headsMost && !slices.ContainsFunc(out, func(h head) bool { return h.text == text }) {
			out = append(out, head{text, t})
		}
	}
	for _, scheme := range signer.Schemes() {
		id, timestamp := c.near(signer.HeaderID), c.timestamp
		if timestamp == "" {
			timestamp = c.near(signer.HeaderTimestamp)
		}
		add(layout(scheme, id, timestamp), twist{
			"signed_otherwise", fmt.Sprintf("what is signed is %s, as in the scheme %s, and not %s", signs(scheme), scheme, signs(c.scheme)),
			fmt.Sprintf("Sign and verify %s, or use the scheme %s.", signs(c.scheme), scheme),
		})
	}
	add(c.timestamp, twist{"signed_otherwise", "there is no dot between the timestamp and the body in what is signed", "What is signed is " + signs(c.scheme) + "."})
	if c.scheme == signer.GitHub {
		return out
	}
	for _, f := range c.Request.Fields {
		c.otherID(f, add)
		c.otherTimestamp(f, add)
	}
	if n, err := strconv.ParseInt(c.timestamp, 10, 64); err == nil {
		unit := twist{
			"timestamp_rewritten", "the timestamp that is signed is not the one in the header: one of the two is in seconds, the other in milliseconds",
			"Verify with the header's digits as they were sent, whole seconds; do not make a number of them before.",
		}
		for _, text := range []string{strconv.FormatInt(n/1000, 10), c.timestamp + "000", strconv.FormatInt(n, 10)} {
			add(layout(c.scheme, c.id, text), unit)
		}
	}
	return out
}

func (c *claim) otherID(f Field, add func(string, twist)) {
	if c.id == "" || len(f.Value) > 128 || !strings.ContainsAny(f.Value, "_-") || strings.ContainsAny(f.Value, " .,;/=") {
		return
	}
	add(layout(c.scheme, f.Value, c.timestamp), twist{
		"id_other", fmt.Sprintf("it was signed with the id in %s and not with the one in %s", f.Name, signer.HeaderID),
		"The id that is signed is that of " + signer.HeaderID + ", the event's.",
	})
}

func (c *claim) otherTimestamp(f Field, add func(string, twist)) {
	text := f.Value
	if at, err := http.ParseTime(text); err == nil {
		text = strconv.FormatInt(at.Unix(), 10)
	} else if n, err := strconv.ParseInt(text, 10, 64); err != nil || n < 1e8 {
		return
	}
	add(layout(c.scheme, c.id, text), twist{
		"timestamp_other", fmt.Sprintf("it was signed with the time in %s and not with the one in %s", f.Name, c.timestampHeader()),
		"The timestamp that is signed is that of " + c.timestampHeader() + "; each attempt has its own.",
	})
}
