package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// fieldPayloads are the payloads of docs/cases/field-cases.json.
func fieldPayloads(t testing.TB) (payloads [][]byte) {
	t.Helper()
	raw, err := os.ReadFile("../../docs/cases/field-cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Scenario struct {
				Payloads []struct {
					Base64 string `json:"payload_b64"`
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	for _, c := range file.Cases {
		for _, p := range c.Scenario.Payloads {
			b, err := base64.StdEncoding.DecodeString(p.Base64)
			if err != nil {
				t.Fatal(err)
			}
			payloads = append(payloads, b)
		}
	}
	if len(payloads) < 20 {
		t.Fatalf("only %d payloads", len(payloads))
	}
	return payloads
}

// seedEnvelopes adds envelopes around the payloads from the field, the first and the last member and between others.
func seedEnvelopes(f *testing.F, form string) {
	f.Helper()
	for _, p := range fieldPayloads(f) {
		f.Add(fmt.Appendf(nil, form, fmt.Appendf(nil, `{"type":"a","payload":%s}`, p)))
		f.Add(fmt.Appendf(nil, form, fmt.Appendf(nil, ` { "payload" : %s , "type" : "a", "uid":"u" } `, p)))
	}
	for _, envelope := range []string{
		`{"type":"a","p\u0061yload":{"payload":1},"metadata":{"payload":[2]}}`, `{"metadata":{"payload":1},"type":"payload","payload":"payload\":2"}`,
		`{"payload":{"payload":{"payload": 1 } } ,"type":"a"}`, `{"type":"a","payload":[ ],"payloads":1}`, `{"Payload":1,"type":"a","payload":2}`,
	} {
		f.Add(fmt.Appendf(nil, form, envelope))
	}
}

// payloadAt finds the bytes of an envelope's payload with the offsets of encoding/json's tokens: an object's member of that name
// that is of the envelope itself. The decoder stands in front of the envelope.
func payloadAt(t *testing.T, dec *json.Decoder, body []byte) (payload []byte) {
	t.Helper()
	step := func() json.Token {
		tok, err := dec.Token()
		if err != nil {
			t.Fatalf("%q is taken, though %v", body, err)
		}
		return tok
	}
	if tok := step(); tok != json.Delim('{') {
		t.Fatalf("%q is taken, though it begins with %v", body, tok)
	}
	for dec.More() {
		name := step()
		behind := dec.InputOffset()
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatalf("%q is taken, though %v", body, err)
		}
		if name == "payload" {
			payload = body[behind:dec.InputOffset()]
			_, payload, _ = bytes.Cut(payload, []byte{':'})
			payload = bytes.TrimLeft(payload, " \t\r\n")
		}
	}
	step()
	return payload
}

// The payload of an envelope is the very bytes that stand in the request, on the quick way and on the general one.
func FuzzEnvelopePayload(f *testing.F) {
	seedEnvelopes(f, "%s")
	f.Fuzz(func(t *testing.T, body []byte) {
		quick, taken := readEnvelope(bytes.Clone(body))
		general, err := generally(bytes.Clone(body))
		if !taken && err != nil {
			return
		}
		want := payloadAt(t, json.NewDecoder(bytes.NewReader(body)), body)
		if taken && !bytes.Equal(quick.Payload, want) {
			t.Errorf("%q quickly: payload %q, want %q", body, quick.Payload, want)
		}
		if err == nil && !bytes.Equal(general.Payload, want) {
			t.Errorf("%q generally: payload %q, want %q", body, general.Payload, want)
		}
	})
}

// The same for each event of a batch; and what is taken of a batch is what encoding/json finds in it.
func FuzzBatch(f *testing.F) {
	seedEnvelopes(f, `{"events":[%s]}`)
	f.Add([]byte(`{"events":[{"type":"a","payload":1},{"type":"b","payload":"x","group_key":"g","content_type":"c"}]}`))
	f.Add([]byte(`{"events":[{"type":"a","payload":1}],"events":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		events, ok := readBatch(bytes.Clone(body))
		if !ok {
			return
		}
		if _, err := readTree(body); err != nil {
			t.Fatalf("%q is taken, and generally refused: %v", body, err)
		}
		var want newBatch
		strict := json.NewDecoder(bytes.NewReader(body))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&want); err != nil || strict.More() || len(want.Events) != len(events) {
			t.Fatalf("%q: %d events, and %d generally, %v", body, len(events), len(want.Events), err)
		}
		dec := json.NewDecoder(bytes.NewReader(body))
		for range 3 { // { "events" [
			if _, err := dec.Token(); err != nil {
				t.Fatal(err)
			}
		}
		for i, ev := range events {
			if payload := payloadAt(t, dec, body); !bytes.Equal(ev.Payload, payload) {
				t.Errorf("%q: payload %d is %q, want %q", body, i, ev.Payload, payload)
			}
			w := want.Events[i]
			if ev.Type != w.Type || ev.UID != text(w.UID) || ev.GroupKey != text(w.GroupKey) || w.ContentType != nil && ev.ContentType != *w.ContentType {
				t.Errorf("%q: event %d is %+v, want %+v", body, i, ev, w)
			}
		}
	})
}

// A place that huma names, made of quoted keys, becomes the pointer of RFC 6901 to it, whatever the keys hold.
func FuzzPointer(f *testing.F) {
	f.Add("url", "", uint8(0))
	f.Add("a.b/c~d[e]", "~2", uint8(7))
	f.Add("", "", uint8(1))
	f.Add("~0~1~2~3~4", "[0].", uint8(255))
	f.Fuzz(func(t *testing.T, outer, inner string, index uint8) {
		escape := strings.NewReplacer("~", "~0", "/", "~1").Replace
		for location, want := range map[string]string{
			"body." + quoteKey(outer):                                              "/" + escape(outer),
			"body." + quoteKey(outer) + "." + quoteKey(inner):                      "/" + escape(outer) + "/" + escape(inner),
			fmt.Sprintf("body.%s[%d].%s", quoteKey(outer), index, quoteKey(inner)): fmt.Sprintf("/%s/%d/%s", escape(outer), index, escape(inner)),
			fmt.Sprintf("body[%d].%s", index, quoteKey(outer)):                     fmt.Sprintf("/%d/%s", index, escape(outer)),
		} {
			if got := pointer(location); got != want {
				t.Errorf("%q is %q, want %q", location, got, want)
			}
		}
	})
}
