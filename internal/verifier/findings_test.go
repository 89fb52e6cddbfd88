package verifier_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/verifier"
	"github.com/postrider/postrider/signer"
)

func TestAgesThatAreWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now        time.Time
		body       string
		want, says string
	}{
		"too old": {now.Add(time.Hour), plainBody, "timestamp_old", "1h0m2s ago (2021-02-25T15:02:10Z); allowed are 5m0s; the signature itself is right"},
		"ahead":   {now.Add(-time.Hour), plainBody, "timestamp_ahead", "59m58s in the future"},
		"both":    {now.Add(time.Hour), plainBody + "\n", "body_newline_added timestamp_old", "allowed are 5m0s"},
	} {
		q := ask(of(sent(t, signer.Standard, plainBody, whsec), c.body), whsec)
		q.Now = c.now
		v := verifier.Judge(q)
		if v.Verified || codes(v) != c.want || !strings.Contains(fmt.Sprint(v.Findings), c.says) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestSecretsThatAreWrong(t *testing.T) {
	t.Parallel()
	raw := []byte(strings.Repeat("0123456789abcdef", 2))
	decoded := "whsec_" + base64.StdEncoding.EncodeToString(raw)
	hexed := hex.EncodeToString(raw)
	public := ofScheme(t)[signer.StandardEd25519]
	urlSafe := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\xfb\xff", 16)))
	for name, c := range map[string]struct {
		scheme       signer.Scheme
		signs, given string
		want         string
	}{
		"a newline":                {signer.Standard, whsec, whsec + "\n", "secret_blank"},
		"blanks":                   {signer.GitHub, textOne, " " + textOne + "\r\n", "secret_blank"},
		"quotes":                   {signer.Standard, whsec, `"` + whsec + `"`, "secret_quoted"},
		"no prefix":                {signer.Standard, whsec, strings.TrimPrefix(whsec, "whsec_"), "secret_base64"},
		"URL-safe":                 {signer.Standard, urlSafe, strings.NewReplacer("+", "-", "/", "_").Replace(urlSafe), "secret_base64"},
		"no padding":               {signer.Standard, decoded, strings.TrimRight(decoded, "="), "secret_base64"},
		"stripe without whsec_":    {signer.Stripe, whsec, strings.TrimPrefix(whsec, "whsec_"), "secret_prefix"},
		"signed with a line break": {signer.GitHub, "0123456789abcdefg", "0123456789abcdefg", ""},
		"a public key, bare":       {signer.StandardEd25519, public[0], strings.TrimPrefix(public[1], "whpk_"), "secret_prefix"},
		"another's":                {signer.Standard, whsec, otherOne, "no_match"},
		"of another scheme":        {signer.Standard, whsec, "a secret of github", "secret_refused"},
		"an API key":               {signer.Standard, whsec, "prk_abcdefghijklmnop", "secret_kind"},
		"hex decoded":              {signer.GitHub, string(raw), hexed, "secret_decoded"},
		"base64 decoded":           {signer.TimestampedHex, string(raw), base64.StdEncoding.EncodeToString(raw), "secret_decoded"},
		"whsec_ decoded":           {signer.Stripe, string(raw), decoded, "secret_decoded"},
		"whsec_ cut off":           {signer.Stripe, strings.TrimPrefix(whsec, "whsec_"), whsec, "secret_cut"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := verifier.Judge(ask(sent(t, c.scheme, plainBody, c.signs), c.given))
			if v.Verified != (c.want == "") || c.want != "" && codes(v) != c.want {
				t.Errorf("%s: %+v", codes(v), v)
			}
		})
	}
	if v := verifier.Judge(ask(sent(t, signer.Standard, plainBody, whsec))); codes(v) != "no_secret" {
		t.Errorf("no secret at all: %+v", v)
	}
}

// The signer's side can have it wrong as well. These are signatures that signer.Sign does not make for the scheme.
func TestSignersThatAreWrong(t *testing.T) {
	t.Parallel()
	r := sent(t, signer.Standard, plainBody, whsec)
	stripe := sent(t, signer.Stripe, plainBody, whsec) // <t>.<body> by the text of the secret
	_, sum, _ := strings.Cut(stripe.Get("Webhook-Signature"), "v1=")
	raw, err := hex.DecodeString(sum)
	if err != nil {
		t.Fatal(err)
	}
	byText := with(r, "webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(raw))
	newline := sent(t, signer.GitHub, plainBody, textOne)
	newline = with(newline, "X-Hub-Signature-256", "sha256="+mac(textOne+"\n", plainBody))
	short := with(newline, "X-Hub-Signature-256", "sha256="+mac("short", plainBody))
	hexScheme := sent(t, signer.TimestampedHex, plainBody, textOne)
	for name, c := range map[string]struct {
		r      verifier.Request
		secret string
		want   string
	}{
		"the text as key, and another layout": {byText, whsec, "secret_raw signed_otherwise"},
		"a line break behind the secret":      {newline, textOne, "secret_newline"},
		"a secret that is too short":          {short, "short", "secret_refused"},
		"without the time":                    {with(hexScheme, "x-delivery-signature", mac(textOne, plainBody)), textOne, "signed_otherwise"},
		"without a dot":                       {with(hexScheme, "x-delivery-signature", mac(textOne, fmt.Sprint(seconds)+plainBody)), textOne, "signed_otherwise"},
		"the delivery's id": {
			with(sent(t, signer.Standard, plainBody, whsec), "webhook-id", "dlv_9"), whsec, "no_match",
		},
		"ids mixed up":         {withID(t, "dlv_1"), whsec, "id_other"},
		"times mixed up":       {with(r, "webhook-timestamp", "1614265329"), whsec, "no_match"},
		"the time of Date":     {with(with(r, "webhook-timestamp", "1614265329"), "Date", "Thu, 25 Feb 2021 15:02:10 GMT"), whsec, "timestamp_other"},
		"an empty body signed": {with(newline, "X-Hub-Signature-256", "sha256="+mac(textOne, "")), textOne, "body_empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if v := verifier.Judge(ask(c.r, c.secret)); v.Verified || codes(v) != c.want {
				t.Errorf("%s: %+v", codes(v), v)
			}
		})
	}
}

// withID is a request whose webhook-id is another than the one that was signed, which stands in another header.
func withID(t *testing.T, signed string) verifier.Request {
	t.Helper()
	s, err := signer.ParseSecret(signer.Standard, whsec)
	if err != nil {
		t.Fatal(err)
	}
	list, err := signer.Sign(signer.Standard, "", []signer.Secret{s}, signer.Message{EventID: signed, Timestamp: seconds, Body: []byte(plainBody)})
	if err != nil {
		t.Fatal(err)
	}
	r := sent(t, signer.Standard, plainBody, whsec)
	return with(r, "webhook-signature", signer.Signature(signer.Standard, "", list))
}

func TestBodiesThatWereChanged(t *testing.T) {
	t.Parallel()
	const layout = "{\"z\":1,\r\n \"ä\": \"</p>\", \"a\":[1.0,true]}"
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(plainBody))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		sent, got string
		want      string
	}{
		"newline lost":          {"a\n", "a", "body_newline_lost"},
		"newline added":         {"a", "a\r\n", "body_newline_added"},
		"LF for CRLF":           {"a\r\nb", "a\nb", "body_lf"},
		"CRLF for LF":           {"a\nb", "a\r\nb", "body_crlf"},
		"blanks":                {"a", " a ", "body_blanks"},
		"a mark added":          {"a", "\ufeffa", "body_bom"},
		"a mark lost":           {"\ufeffa", "a", "body_bom"},
		"made compact":          {`{"a": 1, "b": [1, 2]}`, `{"a":1,"b":[1,2]}`, "body_rewritten"},
		"made pretty":           {`{"a":1,"b":[1,2]}`, "{\n  \"a\": 1,\n  \"b\": [\n    1,\n    2\n  ]\n}", "body_rewritten"},
		"of four blanks":        {"{\n    \"a\": 1\n}", `{"a":1}`, "body_rewritten"},
		"of tabs, with newline": {"{\n\t\"a\": 1\n}\n", `{"a":1}`, "body_rewritten"},
		"sorted":                {`{"a":1E+2,"b":"<"}`, `{"b":"<","a":1E+2}`, "body_rewritten"},
		"escaped for HTML":      {`{"a":"<b>&"}`, `{"a":"\u003cb\u003e\u0026"}`, "body_rewritten"},
		"made plain":            {`{"a":"\u003cb\u003e"}`, `{"a":"<b>"}`, "body_rewritten"},
		"to ASCII":              {`{"a":"é😀\\u00e9"}`, `{"a":"\u00e9\ud83d\ude00\\u00e9"}`, "body_rewritten"},
		"from ASCII":            {`{"a":"\u00e9\ud83d\ude00"}`, `{"a": "é😀"}`, "body_rewritten"},
		"from PHP":              {`{"a":"\/\u00e9"}`, `{"a":"/é"}`, "body_rewritten"},
		"slashes":               {`{"a":"/"}`, `{"a":"\/"}`, "body_rewritten"},
		"in a string":           {layout, `"{\"z\":1,\r\n \"ä\": \"</p>\", \"a\":[1.0,true]}"`, "body_in_string"},
		"in base64":             {layout, base64.StdEncoding.EncodeToString([]byte(layout)), "body_base64"},
		"compressed":            {plainBody, zipped.String(), "body_gzip"},
		"Latin-1":               {"ä", "\u00c3\u00a4", "body_charset"},
		"empty":                 {"a", "", "body_missing no_match"},
		"replaced":              {"\xff", "\ufffd", "body_replaced no_match"},
		"numbers":               {`{"a":1.0}`, `{"a":1}`, "no_match"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := verifier.Judge(ask(of(sent(t, signer.Standard, c.sent, whsec), c.got), whsec))
			if v.Verified || codes(v) != c.want {
				t.Errorf("%s: %+v", codes(v), v)
			}
			if v := verifier.Judge(ask(of(sent(t, signer.Standard, c.sent, whsec), c.got), whsec+"\n")); !strings.Contains(c.want, "no_match") &&
				codes(v) != "secret_blank "+c.want {
				t.Errorf("and a secret with a line break: %s: %+v", codes(v), v)
			}
		})
	}
	long := with(of(sent(t, signer.Standard, "abc", whsec), "abc--"), "Content-Length", "3")
	if v := verifier.Judge(ask(long, whsec)); codes(v) != "body_longer length" {
		t.Errorf("a body that is too long: %+v", v)
	}
}

func TestRepeatedHeadersAreTold(t *testing.T) {
	t.Parallel()
	r := sent(t, signer.Standard, plainBody, whsec)
	r.Fields = append([]verifier.Field{{Name: "Webhook-Id", Value: "evt_forged"}}, r.Fields...)
	if v := verifier.Judge(ask(r, whsec)); codes(v) != "id_other header_repeated" {
		t.Errorf("%+v", v)
	}
}

// Whatever is wrong, each finding says what to do, and none holds any of a secret.
func TestNoFindingHoldsASecretAndEachSaysWhatToDo(t *testing.T) {
	t.Parallel()
	canary := "canary0123456789abcdefCANARY"
	for _, scheme := range signer.Schemes() {
		for _, secret := range []string{
			canary, canary + "\n", `"` + canary + `"`, "whsec_" + canary, "whsec_" + canary + "\n", "prk_" + canary, "whsk_" + canary, "whpk_" + canary, canary[:12],
		} {
			for signing, one := range ofScheme(t) {
				q := ask(sent(t, signing, plainBody, one[0]), secret)
				q.Scheme = scheme
				v := verifier.Judge(q)
				if v.Verified || len(v.Findings) == 0 || strings.Contains(fmt.Sprintf("%+v", v), canary[:12]) {
					t.Errorf("%s of %s: %+v", scheme, signing, v)
				}
				for _, f := range v.Findings {
					if f.Code == "" || f.Says == "" || f.Do == "" {
						t.Errorf("%+v", f)
					}
				}
			}
		}
	}
}

func TestALargeBodyIsJudgedWithinItsEffort(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + strings.Repeat(" ", 8<<20)
	v := verifier.Judge(ask(of(sent(t, signer.Standard, "a", whsec), large), whsec))
	if v.Verified || codes(v) != "no_match" {
		t.Errorf("%s", codes(v))
	}
}

// Other receivers take the last of them, or join them, so that this very request fails there.
func TestAVerifiedRequestWithAHeaderTwiceSaysSo(t *testing.T) {
	t.Parallel()
	r := sent(t, signer.Standard, plainBody, whsec)
	r.Fields = append(r.Fields, verifier.Field{Name: signer.HeaderID, Value: "evt_2"})
	if v := verifier.Judge(ask(r, whsec)); !v.Verified || codes(v) != "header_repeated" {
		t.Errorf("it is %+v", v)
	}
}
