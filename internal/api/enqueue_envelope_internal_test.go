package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/intake"
)

// generally reads an envelope as huma has it read: once by readTree, whose tree is held against the schema, and once into
// the struct.
func generally(body []byte) (ev intake.Event, err error) {
	tree, err := readTree(body)
	if err != nil {
		return ev, err
	}
	members, ok := tree.(map[string]any)
	if !ok {
		return ev, fmt.Errorf("no object: %v", tree)
	}
	for name, value := range members {
		_, isText := value.(string)
		isText = isText && slices.Contains([]string{"type", "uid", "content_type", "group_key"}, name)
		if !isText && name != "payload" {
			return ev, fmt.Errorf("%s: %v", name, value)
		}
	}
	if members["type"] == nil || members["payload"] == nil {
		return ev, fmt.Errorf("something is missing: %v", members)
	}
	var n newEvent
	if err := json.Unmarshal(body, &n); err != nil {
		return ev, err
	}
	var faults fault.Fields
	ev = n.read(&faults, "")
	return ev, faults.Err()
}

func sameAsGenerally(t *testing.T, body []byte) (quick bool) {
	t.Helper()
	got, ok := readEnvelope(body)
	batch, okBatch := readBatch(fmt.Appendf(nil, ` { "events" : [ %s,%s ] } `, body, body))
	if ok != okBatch && !(okBatch && strings.Contains(string(body), "},")) { // two of them, in a batch
		t.Errorf("%q: %v, in a batch %v", body, ok, okBatch)
	}
	if !ok {
		return false
	}
	want, err := generally(body)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q: %+v; generally %+v, %v", body, got, want, err)
	}
	if len(batch) != 2 || !reflect.DeepEqual(batch[0], want) || !reflect.DeepEqual(batch[1], want) {
		t.Errorf("%q in a batch: %+v", body, batch)
	}
	return true
}

func TestTheQuickWayReadsWhatIsUsual(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"type":"a","payload":1}`,
		` { "payload" : {"a" : [ 1 , {} ] } , "type" : "order.paid" } ` + "\n",
		`{"type":"a","payload":"x","uid":"u:1","content_type":"text/plain; charset=utf-8","group_key":"g 1"}`,
		`{"type":"","payload":true,"group_key":"","content_type":""}`,
		`{"type":"a","payload":[]}`, `{"type":"a","payload":{}}`, `{"type":"a","payload":[ ]}`, `{"type":"a","payload":{ }}`,
		"{\"type\":\"a\",\"payload\":\"\xff \u00e9 \\u00e9 \\\" \\\\ \x7f\"}",
		`{"type":"a","payload":-0.5e+10}`, `{"type":"a","payload":0}`, `{"type":"a","payload":-0}`, `{"type":"a","payload":1E9}`,
		`{"type":"a","payload":{"a":1,"a":"\u0000"}}`,
		`{"type":"a","payload":"1234567"}`, `{"type":"a","payload":"12345678"}`, `{"type":"a","payload":"123456789"}`,
		`{"type":"a","payload":` + strings.Repeat("[", plainDepth) + strings.Repeat("]", plainDepth) + `}`,
	} {
		if !sameAsGenerally(t, []byte(body)) {
			t.Errorf("%s is not read", body)
		}
	}
}

func TestTheQuickWayLeavesTheRest(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		``, ` `, `{`, `{}`, `[]`, `null`, `1`, `{"type":"a"}`, `{"payload":1}`, `{"type":"a","payload":1} x`, `{"type":"a","payload":1}{}`,
		`{"type":"a","payload":1,}`, `{"type":"a" "payload":1}`, `{"type":"a","payload"}`, `{"type":"a","payload":}`, `{,"type":"a","payload":1}`,
		`{"type":"a","type":"a","payload":1}`, `{"type":"a","payload":1,"payload":1}`, `{"Type":"a","payload":1}`,
		`{"type":"a","payload":1,"more":1}`, `{"type":1,"payload":1}`, `{"type":null,"payload":1}`, `{"type":"a","payload":1,"uid":null}`,
		`{"type":"a","payload":1,"uid":""}`, `{"type":"\u0061","payload":1}`, `{"\u0074ype":"a","payload":1}`, `{"type":"é","payload":1}`,
		"{\"type\":\"a\x7f\",\"payload\":1}", "{\"type\":\"a\x1f\",\"payload\":1}", `{"type":"a","payload":1,"group_key":"é"}`,
		`{"type":"a","payload":1,"deliver_at":"2030-01-01T00:00:00Z"}`, `{"type":"a","payload":1,"endpoint_ids":["a"]}`,
		`{"type":"a","payload":1,"metadata":{}}`, "\ufeff" + `{"type":"a","payload":1}`,
		`{"type":"a","payload":01}`, `{"type":"a","payload":1.}`, `{"type":"a","payload":.1}`, `{"type":"a","payload":1e}`,
		`{"type":"a","payload":-}`, `{"type":"a","payload":+1}`, `{"type":"a","payload":1e+}`, `{"type":"a","payload":NaN}`,
		`{"type":"a","payload":tru}`, `{"type":"a","payload":nul`, `{"type":"a","payload":"`, `{"type":"a","payload":"\`, `{"type":"a","payload":"\u00`,
		`{"type":"a","payload":"\x"}`, `{"type":"a","payload":"\u00g0"}`, "{\"type\":\"a\",\"payload\":\"12345678\n\"}", "{\"type\":\"a\",\"payload\":\"\t\"}",
		`{"type":"a","payload":[1,]}`, `{"type":"a","payload":[,]}`, `{"type":"a","payload":{"a"}}`, `{"type":"a","payload":{"a":1,}}`,
		`{"type":"a","payload":{1:1}}`, `{"type":"a","payload":[1}}`, `{"type":"a","payload":[}`, `{"type":"a","payload":[1 2]}`,
		`{"type":"a","payload":` + strings.Repeat("[", plainDepth+1) + strings.Repeat("]", plainDepth+1) + `}`,
	} {
		if sameAsGenerally(t, []byte(body)) {
			t.Errorf("%s is read", body)
		}
	}
	event := `{"type":"a","payload":1}`
	for _, body := range []string{
		`{"events":[]}`, `{"events":[` + event + `,]}`, `{"events":[` + event + `],"more":1}`, `{"events":[` + event + `]`, `{"events":` + event + `}`,
		`{"event":[` + event + `]}`, `[` + event + `]`, `{"events":[` + event + `]}}`, `{"events":[` + event + ` ` + event + `]}`, `{"events":[1]}`,
		`{"events":[` + strings.Repeat(event+",", maxBatch) + event + `]}`,
	} {
		if got, ok := readBatch([]byte(body)); ok {
			t.Errorf("%.80s: %d events", body, len(got))
		}
	}
	if got, ok := readBatch([]byte(`{"events":[` + strings.Repeat(event+",", maxBatch-1) + event + `]}`)); !ok || len(got) != maxBatch {
		t.Errorf("%d events, %v", len(got), ok)
	}
}

// What the quick way takes is read generally as well, and means the same.
func FuzzReadEnvelope(f *testing.F) {
	f.Add([]byte(`{"type":"a","payload":{"b":[1,-2.5e3,"x\u00e9\\",true,null]},"uid":"u","content_type":"c","group_key":"g"}`))
	f.Add([]byte(" {\"payload\": \"12345678\xff\" , \"type\":\"\"}"))
	f.Add([]byte(`{"type":"a","payload":1},{"type":"b","payload":2}`))
	f.Fuzz(func(t *testing.T, body []byte) { sameAsGenerally(t, body) })
}

// A value's end is where encoding/json finds it, whatever bytes stand in it.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-0.5E+7,"\ud83d\n",{"b":null}]}`, `"1234567\"12345678"`, "\"\xff\x80\x7f\"", `[[],{},"",0] `, "\"\u2028\x01\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := cursor{data: data}
		raw, ok := c.value()
		if ok && c.end() && !json.Valid(data) {
			t.Errorf("%q is taken", data)
		}
		if !ok && json.Valid(data) && len(data) < plainDepth {
			t.Errorf("%q is not taken", data)
		}
		if ok && !json.Valid(raw) {
			t.Errorf("%q of %q is no value", raw, data)
		}
	})
}

func benchmarkBody(payload int) []byte {
	return []byte(`{"type":"order.paid","uid":"order-1001-paid","payload":{"pad":"` + strings.Repeat("x", payload-10) + `"}}`)
}

func BenchmarkReadEnvelope(b *testing.B) {
	body := benchmarkBody(1 << 10)
	b.Run("quick", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := readEnvelope(body); !ok {
				b.Fatal("not read")
			}
		}
	})
	b.Run("general", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := generally(body); err != nil {
				b.Fatal(err)
			}
		}
	})
}
