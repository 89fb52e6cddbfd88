//go:build interop

package interop_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider/signer"
)

// message is one line for verify.mjs.
type message struct {
	Name            string            `json:"name"`
	Scheme          signer.Scheme     `json:"scheme"`
	Verifiers       []string          `json:"verifiers"`
	Secret          string            `json:"secret"` // what the receiver holds
	SignatureHeader string            `json:"signature_header"`
	Headers         map[string]string `json:"headers"`
	Body            []byte            `json:"body"` // encoding/json writes base64
	Expect          string            `json:"expect"`
}

const (
	accept = "accept"
	refuse = "refuse"
)

// clockless verifies any bytes of any scheme and does not look at the time.
const clockless = "node:crypto"

var bodies = map[string][]byte{
	"json":         []byte(`{"test": 2432232314}`),
	"json, spaced": []byte("{ \"z\": 1,\n  \"a\":{\"y\":[3, 2,1] , \"b\":null},\t\"n\":1E+2,\"n\":-0 }"),
	"json, marked": []byte("{\"html\":\"<b>R&D</b>\",\"u\":\"\u2028\u2029\",\"t\":\"🙄 naïve 日本\"}"),
	"text":         []byte("amount=1.00&id=a.b.c\r\n"),
	"empty":        {},
	"binary":       {0x00, 0xff, 0xfe, '\r', '\n', 0x80, '.', 0xc3},
	"big":          bytes.Repeat([]byte("0123456789abcde\n"), 1<<16), // 1 MiB
}

// verifiersFor names all that can judge a body of the scheme: Svix and Stripe's constructEvent read JSON alone, all
// libraries make text of the body, and Octokit's refuses an empty one unseen.
func verifiersFor(scheme signer.Scheme, body []byte) []string {
	verifiers := []string{clockless}
	if !utf8.Valid(body) {
		return verifiers
	}
	switch scheme {
	case signer.Standard:
		verifiers = append(verifiers, "standardwebhooks")
		if json.Valid(body) {
			verifiers = append(verifiers, "svix")
		}
	case signer.Stripe:
		verifiers = append(verifiers, "stripe.verifyHeader")
		if json.Valid(body) {
			verifiers = append(verifiers, "stripe.constructEvent")
		}
	case signer.GitHub:
		if len(body) > 0 {
			verifiers = append(verifiers, "octokit")
		}
	case signer.StandardEd25519, signer.TimestampedHex:
	}
	return verifiers
}

// cases makes the messages of one scheme and body, signed at now: the libraries look at the clock.
func cases(t *testing.T, scheme signer.Scheme, bodyName, headerName string, now time.Time) []message {
	t.Helper()
	body := bodies[bodyName]
	older, newer, stranger := newSecret(t, scheme), newSecret(t, scheme), newSecret(t, scheme)
	fresh := signed(t, scheme, headerName, now, body, older)
	rotating := signed(t, scheme, headerName, now, body, newer, older)

	base := message{
		Scheme: scheme, Verifiers: verifiersFor(scheme, body), Secret: heldBy(older),
		SignatureHeader: signer.SignatureHeader(scheme, headerName), Headers: fresh, Body: body, Expect: accept,
	}
	var all []message
	add := func(name string, change func(m *message)) {
		m := base
		m.Headers = maps.Clone(base.Headers)
		change(&m)
		m.Name = scheme.String() + ": " + bodyName + ": " + name
		all = append(all, m)
	}
	add("as sent", func(*message) {})
	add("body longer", func(m *message) { m.Body, m.Expect = append(bytes.Clone(body), ' '), refuse })
	add("stranger's secret", func(m *message) { m.Secret, m.Expect = heldBy(stranger), refuse })
	add("signature changed", func(m *message) {
		m.Headers[m.SignatureHeader] = flipLast(m.Headers[m.SignatureHeader])
		m.Expect = refuse
	})
	add("rotating, new secret", func(m *message) { m.Headers, m.Secret = rotating, heldBy(newer) })
	add("rotating, old secret", func(m *message) {
		m.Headers = rotating
		if !scheme.SupportsOverlap() {
			m.Expect = refuse
		}
	})
	add("rotating, stranger's secret", func(m *message) {
		m.Headers, m.Secret, m.Expect = rotating, heldBy(stranger), refuse
	})
	for _, shift := range []time.Duration{-time.Hour, time.Second} {
		add("time moved by "+shift.String(), func(m *message) {
			moved := signed(t, scheme, headerName, now.Add(shift), body, older)
			moveTime(m, moved)
		})
	}
	if scheme == signer.Standard || scheme == signer.StandardEd25519 {
		add("id changed", func(m *message) { m.Headers[signer.HeaderID], m.Expect = "evt_2", refuse })
	}
	if timed := without(base.Verifiers, clockless); len(timed) > 0 && scheme != signer.GitHub {
		add("signed an hour ago", func(m *message) {
			m.Headers = signed(t, scheme, headerName, now.Add(-time.Hour), body, older)
			m.Verifiers, m.Expect = timed, refuse
		})
	}
	return all
}

// moveTime gives a message the time of another, under its own signature. github signs no time, so there it stays good.
func moveTime(m *message, from map[string]string) {
	m.Expect = refuse
	switch m.Scheme {
	case signer.Standard, signer.StandardEd25519:
		m.Headers[signer.HeaderTimestamp] = from[signer.HeaderTimestamp]
	case signer.Stripe:
		own, other := m.Headers[m.SignatureHeader], from[m.SignatureHeader]
		m.Headers[m.SignatureHeader] = other[:strings.Index(other, ",")] + own[strings.Index(own, ","):]
	case signer.TimestampedHex:
		m.Headers[signer.HeaderHexTimestamp] = from[signer.HeaderHexTimestamp]
	case signer.GitHub:
		m.Headers[signer.HeaderTimestamp] = from[signer.HeaderTimestamp]
		m.Expect = accept
	}
}

// flipLast changes a signature's last letter that carries whole bits, leaving its form right.
func flipLast(value string) string {
	at := len(strings.TrimRight(value, "=")) - 2
	other := byte('0')
	if value[at] == other {
		other = '1'
	}
	return value[:at] + string(other) + value[at+1:]
}

func signed(t *testing.T, scheme signer.Scheme, headerName string, at time.Time, body []byte, secrets ...signer.Secret) map[string]string {
	t.Helper()
	list, err := signer.Sign(scheme, headerName, secrets, signer.Message{
		EventID: "evt_1", DeliveryID: "dlv_1", EventType: "order.paid", Timestamp: at.Unix(), Body: body,
	})
	if err != nil {
		t.Fatal(err)
	}
	headers := make(map[string]string, len(list))
	for _, h := range list {
		headers[h.Name] = h.Value
	}
	return headers
}

func newSecret(t *testing.T, scheme signer.Scheme) signer.Secret {
	t.Helper()
	secret, err := signer.NewSecret(scheme, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// heldBy is what a receiver is told: of an asymmetric pair the public half.
func heldBy(secret signer.Secret) string {
	if public := secret.PublicKey(); public != "" {
		return public
	}
	return secret.Reveal()
}

func without(names []string, name string) []string {
	var rest []string
	for _, n := range names {
		if n != name {
			rest = append(rest, n)
		}
	}
	return rest
}
