package verifier_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/verifier"
	"github.com/postrider/postrider/signer"
)

const (
	whsec     = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherOne  = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	textOne   = "It's a Secret to Everybody"
	seconds   = 1614265330
	plainBody = `{"test": 2432232314}`
)

var now = time.Unix(seconds+2, 0)

// sent is a request as Postrider sends it.
func sent(t *testing.T, scheme signer.Scheme, body string, secrets ...string) verifier.Request {
	t.Helper()
	var parsed []signer.Secret
	for _, text := range secrets {
		s, err := signer.ParseSecret(scheme, text)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, s)
	}
	list, err := signer.Sign(scheme, "", parsed, signer.Message{
		EventID: "msg_p5jXN8AQM9LWM0D4loKWxJek", DeliveryID: "dlv_1", EventType: "order.paid", Timestamp: seconds, Body: []byte(body),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := verifier.Request{Body: []byte(body)}
	for _, h := range append(list, signer.Header{Name: signer.HeaderDeliveryID, Value: "dlv_1"}, signer.Header{Name: "Date", Value: "Thu, 25 Feb 2021 15:02:11 GMT"}) {
		r.Fields = append(r.Fields, verifier.Field(h))
	}
	return r
}

// with changes the header of a request, "" takes it away.
func with(r verifier.Request, name, value string) verifier.Request {
	r.Fields = slices.DeleteFunc(slices.Clone(r.Fields), func(f verifier.Field) bool { return strings.EqualFold(f.Name, name) })
	if value != "" {
		r.Fields = append(r.Fields, verifier.Field{Name: name, Value: value})
	}
	return r
}

func of(r verifier.Request, body string) verifier.Request {
	r.Body = []byte(body)
	return r
}

func rename(r verifier.Request, name, to string) verifier.Request {
	return with(with(r, name, ""), to, r.Get(name))
}

func ask(r verifier.Request, secrets ...string) verifier.Question {
	q := verifier.Question{Request: r, Now: now, Tolerance: 5 * time.Minute}
	for i, text := range secrets {
		q.Secrets = append(q.Secrets, verifier.Secret{Label: fmt.Sprintf("secret %d", i+1), Text: text})
	}
	return q
}

func codes(v verifier.Verdict) string {
	var out []string
	for _, f := range v.Findings {
		out = append(out, f.Code)
	}
	return strings.Join(out, " ")
}

// Constant vectors, which do not come from our own signer.
func TestVectorsVerify(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		request, secret string
		scheme          signer.Scheme
	}{
		"standard": {
			"POST /hook HTTP/1.1\r\nHost: x\r\nwebhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek\r\nwebhook-timestamp: 1614265330\r\n" +
				"webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=\r\n\r\n" + plainBody,
			whsec, signer.Standard,
		},
		"github": {
			"x-hub-signature-256: sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17\n\nHello, World!",
			textOne, signer.GitHub,
		},
	} {
		r, err := verifier.ParseRequest([]byte(c.request))
		if err != nil {
			t.Fatal(err)
		}
		v := verifier.Judge(ask(r, c.secret))
		if !v.Verified || v.Scheme != c.scheme || v.Secret != "secret 1" {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// ofScheme are a secret of each scheme and what a receiver verifies with.
func ofScheme(t *testing.T) map[signer.Scheme][2]string {
	t.Helper()
	s, err := signer.NewSecret(signer.StandardEd25519, strings.NewReader(strings.Repeat("7", 32)))
	if err != nil {
		t.Fatal(err)
	}
	return map[signer.Scheme][2]string{
		signer.Standard: {whsec, whsec}, signer.StandardEd25519: {s.Reveal(), s.PublicKey()},
		signer.Stripe: {whsec, whsec}, signer.GitHub: {textOne, textOne}, signer.TimestampedHex: {textOne, textOne},
	}
}

func TestEachSchemeIsRecognizedAndVerified(t *testing.T) {
	t.Parallel()
	for scheme, secret := range ofScheme(t) {
		r := sent(t, scheme, plainBody, secret[0])
		for _, given := range []signer.Scheme{"", scheme} {
			q := ask(r, secret[1])
			q.Scheme = given
			v := verifier.Judge(q)
			if !v.Verified || v.Scheme != scheme || (scheme != signer.GitHub && !v.SignedAt.Equal(time.Unix(seconds, 0))) {
				t.Errorf("%s given as %q: %+v", scheme, given, v)
			}
		}
		// A body that was changed is seen in every scheme, with what was changed.
		if v := verifier.Judge(ask(of(r, plainBody+"\n"), secret[1])); v.Verified || codes(v) != "body_newline_added" || v.Secret != "secret 1" {
			t.Errorf("%s with a newline: %+v", scheme, v)
		}
		if v := verifier.Judge(ask(of(r, "{}"), secret[1])); v.Verified || codes(v) != "no_match" {
			t.Errorf("%s with another body: %+v", scheme, v)
		}
	}
}

func TestWhatIsGoodToKnowOfAVerifiedRequest(t *testing.T) {
	t.Parallel()
	twice := sent(t, signer.Standard, plainBody, otherOne, whsec)
	named := with(rename(sent(t, signer.Stripe, plainBody, whsec), "Webhook-Signature", "X-Shop-Signature"), "webhook-signature", "")
	late := ask(sent(t, signer.Standard, plainBody, whsec), whsec)
	late.Now, late.Tolerance = now.AddDate(5, 0, 0), 0
	for name, c := range map[string]struct {
		q    verifier.Question
		want string
	}{
		"nothing":               {ask(sent(t, signer.Standard, plainBody, whsec), whsec), ""},
		"the second secret":     {ask(sent(t, signer.Standard, plainBody, whsec), otherOne, whsec), "other_secret"},
		"a rotation":            {ask(twice, whsec), "rotation"},
		"the newer one":         {ask(twice, otherOne), ""},
		"github has no time":    {ask(sent(t, signer.GitHub, plainBody, textOne), textOne), "no_time"},
		"a length":              {ask(with(sent(t, signer.Standard, plainBody, whsec), "Content-Length", "5"), whsec), "length"},
		"a name of one's own":   {ask(named, whsec), ""},
		"of any time, if asked": {late, ""},
	} {
		if v := verifier.Judge(c.q); !v.Verified || codes(v) != c.want {
			t.Errorf("%s: %+v, want %q", name, v, c.want)
		}
	}
}

func signature(value string) string { return strings.TrimPrefix(value, "v1,") }

func toHex(t *testing.T, text string) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(raw)
}

// Each finding has a case, alone unless another has to come with it.
func TestHeadersTimesAndSignaturesThatAreWrong(t *testing.T) {
	t.Parallel()
	r := sent(t, signer.Standard, plainBody, whsec)
	stripe, gitHub := sent(t, signer.Stripe, plainBody, whsec), sent(t, signer.GitHub, plainBody, textOne)
	sig := signature(r.Get(signer.HeaderSignature))
	hexed := sent(t, signer.TimestampedHex, plainBody, textOne)
	hexSum := hexed.Get("x-delivery-signature")
	for name, c := range map[string]struct {
		r          verifier.Request
		scheme     signer.Scheme
		secret     string
		want, says string
	}{
		"not signed":         {verifier.Request{Fields: []verifier.Field{{Name: "X-A", Value: "b"}}}, "", whsec, "not_signed", "the headers are x-a"},
		"sha1":               {with(verifier.Request{}, "X-Hub-Signature", "sha1=00"), "", textOne, "sha1", "SHA-1"},
		"no id":              {with(r, "webhook-id", ""), "", whsec, "header_missing", "webhook-id is missing; the headers are date, postrider-delivery-id, webhook-signature, webhook-timestamp"},
		"no timestamp":       {with(r, "webhook-timestamp", ""), "", whsec, "header_missing", "webhook-timestamp is missing"},
		"renamed":            {rename(r, "webhook-id", "HTTP_WEBHOOK_ID"), "", whsec, "header_renamed", "webhook-id is there as HTTP_WEBHOOK_ID"},
		"quoted":             {with(r, "webhook-signature", `"v1,`+sig+`"`), "", whsec, "header_quoted", "quotation marks"},
		"a dot in the id":    {with(r, "webhook-id", "a.b"), "", whsec, "id_unreadable", "a dot"},
		"another scheme":     {gitHub, signer.Standard, whsec, "other_scheme", "scheme github (X-Hub-Signature-256) and not in standard"},
		"another, verified":  {stripe, signer.Standard, whsec, "other_scheme", "in stripe it verifies by secret 1"},
		"milliseconds":       {with(r, "webhook-timestamp", "1614265330000"), "", whsec, "timestamp_rewritten timestamp_unit", "in milliseconds (2021-02-25T15:02:10Z)"},
		"a date":             {with(r, "webhook-timestamp", "2021-02-25T15:02:10Z"), "", otherOne, "timestamp_unreadable", "an RFC 3339 time"},
		"a fraction":         {with(r, "webhook-timestamp", "1614265330.5"), "", otherOne, "timestamp_unreadable", "not whole"},
		"a word":             {with(r, "webhook-timestamp", "now\x1b"), "", otherOne, "timestamp_unreadable", `"now\x1b"`},
		"stripe without t":   {with(stripe, "Webhook-Signature", "v1=00"), signer.Stripe, whsec, "timestamp_missing signature_unreadable", "t=…"},
		"nothing to read":    {with(r, "webhook-signature", "v1,???"), "", whsec, "signature_unreadable", "v1,<base64>"},
		"cut off":            {with(r, "webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(make([]byte, 20))), "", whsec, "signature_length", "20 bytes and not 32; HMAC-SHA1"},
		"hex":                {with(r, "webhook-signature", "v1,"+toHex(t, sig)), "", whsec, "signature_encoding", "written in hex and not in base64"},
		"no version":         {with(r, "webhook-signature", sig), "", whsec, "signature_version", `stands nothing and not "v1,"`},
		"a comma between":    {with(r, "webhook-signature", "v1,"+sig+",v1,"+sig), "", whsec, "refused", "no signature matches"},
		"a version of hex":   {with(sent(t, signer.TimestampedHex, plainBody, textOne), "x-delivery-signature", "sha256="+hexSum), "", textOne, "signature_version", "where nothing belongs"},
		"hex not in full":    {with(r, "webhook-signature", "v1,"+strings.NewReplacer("+", "-", "/", "_").Replace(sig)), "", whsec, "signature_encoding", "URL-safe"},
		"no secret to match": {r, "", otherOne, "no_match", "none of the secrets"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := ask(c.r, c.secret)
			q.Scheme = c.scheme
			v := verifier.Judge(q)
			if v.Verified || codes(v) != c.want {
				t.Fatalf("%s: %+v", codes(v), v)
			}
			all := fmt.Sprint(v.Findings)
			if !strings.Contains(all, c.says) {
				t.Errorf("it says %s", all)
			}
		})
	}
}
