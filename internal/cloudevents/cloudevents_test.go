package cloudevents_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider/internal/cloudevents"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	n := func(literal string) any { return json.Number(literal) }
	for _, c := range []struct {
		name  string
		value any
		ok    bool
	}{
		{"source", "https://github.com/cloudevents", true},
		{"source", "mailto:cncf-wg-serverless@lists.cncf.io", true},
		{"source", "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66", true},
		{"source", "/cloudevents/spec/pull/123", true},
		{"source", "1-555-123-4567", true},
		{"source", "//host?q#f", true},
		{"source", "", false},
		{"source", "a b", false},
		{"source", "ä", false},
		{"source", "%zz", false},
		{"source", "1:2", false},
		{"source", true, false},
		{"dataschema", "urn:x", true},
		{"dataschema", "/relative", false},
		{"dataschema", "", false},
		{"subject", "mynewfile.jpg ä", true},
		{"subject", "", false},
		{"subject", "\n", false},
		{"time", "2018-04-05T17:31:00Z", true},
		{"time", "2018-04-05t17:31:00.123456789+01:30", true},
		{"time", "2018-04-05 17:31:00Z", false},
		{"time", "2018-04-05T17:31:00", false},
		{"time", "2018-04-05T7:31:00Z", false},
		{"time", "2018-04-05T17:31:00,5Z", false},
		{"time", "2018-04-05T17:31:00+24:00", false},
		{"time", n("1"), false},
		{"comexampleextension1", "", true},
		{"a1", n("-2147483648"), true},
		{"a1", n("2147483648"), false},
		{"a1", n("1.0"), false},
		{"a1", n("1e1"), false},
		{"a1", false, true},
		{"a1", nil, false},
		{"a1", []any{}, false},
		{"a1", "\u0085", false},
		{"a1", "\ufffe", false},
		{"a1", "\U0001ffff", false},
		{"a1", "\ufdd0", false},
		{"a1", "\xff", false},
		{"a1", "\ufffd 🙄", true},
		{"", "x", false},
		{"Ab", "x", false},
		{"a_b", "x", false},
		{"é", "x", false},
		{"id", "x", false},
		{"type", "x", false},
		{"specversion", "1.0", false},
		{"data", "x", false},
		{"data_base64", "x", false},
		{"datacontenttype", "a/b", false},
	} {
		if err := cloudevents.Check(c.name, c.value); (err == nil) != c.ok {
			t.Errorf("%s %v: %v", c.name, c.value, err)
		}
	}
}

func TestParseHeader(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"": "", "plain": "plain", "Euro%20%E2%82%AC%20%F0%9F%98%80": "Euro € 😀", "%e2%82%ac": "€", "%41": "A", "%2541": "%41",
		`"quoted"`: "quoted", `"a \"b\" \\"`: `a "b" \`, `"`: `"`, `"%20"`: " ", "a+b": "a+b", "€": "€",
	} {
		if got, err := cloudevents.ParseHeader(given); err != nil || got != want {
			t.Errorf("%s: %q, %v", given, got, err)
		}
	}
	for _, given := range []string{"%", "%4", "%zz", "a%", "%E4", "%C0%A0", "\xff", "%-1"} {
		if got, err := cloudevents.ParseHeader(given); err == nil {
			t.Errorf("%q: %q", given, got)
		}
	}
}

func event(contentType, payload, kept string) cloudevents.Event {
	return cloudevents.Event{
		ID: "evt_1", UID: "u", Tenant: "ten_1", Type: "order.paid", ContentType: contentType,
		AcceptedAt: time.Date(2026, 11, 30, 9, 0, 0, 1e6, time.FixedZone("", 3600)), Kept: []byte(kept), Payload: []byte(payload),
	}
}

func TestStructured(t *testing.T) {
	t.Parallel()
	const own = `{"specversion":"1.0","id":"evt_1","source":"/tenants/ten_1","type":"order.paid"`
	const at = `,"time":"2026-11-30T08:00:00.001Z"`
	data := func(contentType, data string) string {
		return own + at + `,"datacontenttype":"` + contentType + `"` + data + `}`
	}
	for _, c := range []struct{ contentType, payload, kept, want string }{
		{"application/json", "{ \"n\": 1E+2,\n\"h\":\"<\" }", "", data("application/json", ",\"data\":{ \"n\": 1E+2,\n\"h\":\"<\" }")},
		{"application/x+JSON; charset=x", `"s"`, "", data("application/x+JSON; charset=x", `,"data":"s"`)},
		{"application/json", `{"a":`, "", data("application/json", `,"data_base64":"eyJhIjo="`)},
		{"application/json", `1}`, "", data("application/json", `,"data_base64":"MX0="`)},
		{"application/json", "\"\xff\"", "", data("application/json", `,"data_base64":"Iv8i"`)},
		{"application/json", "", "", data("application/json", "")},
		{"text/plain", "a\x00<\"", "", data("text/plain", `,"data":"a\u0000<\""`)},
		{"text/plain; charset=latin1", "a", "", data("text/plain; charset=latin1", `,"data_base64":"YQ=="`)},
		{"text/plain; charset=UTF-8", "é", "", data("text/plain; charset=UTF-8", `,"data":"é"`)},
		{"text/plain", "\xe9", "", data("text/plain", `,"data_base64":"6Q=="`)},
		{"image/svg+xml", "<a/>", "", data("image/svg+xml", `,"data":"<a/>"`)},
		{"application/octet-stream", "{}", "", data("application/octet-stream", `,"data_base64":"e30="`)},
		{"a/b", "", `{"source":"/o","time":"2020-01-01T00:00:00z","n":-5,"b":true,"subject":"<é>"}`, `{"specversion":"1.0","id":"u","source":"/o",` +
			`"type":"order.paid","b":true,"n":-5,"subject":"<é>","time":"2020-01-01T00:00:00z","datacontenttype":"a/b"}`},
		{"a/b", "", `{"source":"/o"}`, `{"specversion":"1.0","id":"u","source":"/o","type":"order.paid","datacontenttype":"a/b"}`},
		// What can be no attribute does not get in, wherever it came from.
		{"a/b", "", `{"source":"no uri","id":"x","data":"y","A":1,"x":[1],"subject":"s"}`, own + `,"subject":"s"` + at + `,"datacontenttype":"a/b"}`},
		{"a/b", "", `[1]`, data("a/b", "")},
	} {
		if got := string(event(c.contentType, c.payload, c.kept).Structured()); got != c.want {
			t.Errorf("%s %q:\n%s, want\n%s", c.contentType, c.payload, got, c.want)
		}
	}
	e := event("a/b", "", `{"source":"/o"}`)
	if e.UID = ""; !strings.Contains(string(e.Structured()), `"id":"evt_1","source":"/o"`) {
		t.Errorf("without a uid: %s", e.Structured())
	}
}

// Whatever a payload, its content type and its metadata are: the envelope is a JSON object that gives the payload back.
func FuzzStructured(f *testing.F) {
	f.Add("application/json", []byte(`{"a": 1}`), []byte(`{"source":"/o","n":1}`))
	f.Add("application/json", []byte(`}`), []byte(`{`))
	f.Add("text/plain", []byte("\x00\""), []byte(`{"x":"\u2028"}`))
	f.Add("text/xml; charset=ascii", []byte("<a/>"), []byte(`{"source":1}`))
	f.Fuzz(func(t *testing.T, contentType string, payload, kept []byte) {
		if !utf8.ValidString(contentType) { // what intake lets in is ASCII
			return
		}
		e := event(contentType, string(payload), string(kept))
		out := e.Structured()
		if !bytes.Equal(out, e.Structured()) {
			t.Fatal("not the same twice")
		}
		var got struct {
			SpecVersion, ID, Source, Type, DataContentType string
			Data                                           json.RawMessage
			Base64                                         *string `json:"data_base64"`
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if got.SpecVersion != "1.0" || got.ID == "" || got.Source == "" || got.Type != "order.paid" || got.DataContentType != contentType {
			t.Errorf("%s", out)
		}
		back := []byte(got.Data)
		switch {
		case got.Base64 != nil:
			back, _ = base64.StdEncoding.DecodeString(*got.Base64)
		case got.Data != nil && !cloudevents.IsJSON(contentType):
			var text string
			if err := json.Unmarshal(got.Data, &text); err != nil {
				t.Fatal(err)
			}
			back = []byte(text)
		}
		if !bytes.Equal(back, payload) {
			t.Errorf("%q comes out as %q in %s", payload, back, out)
		}
	})
}
