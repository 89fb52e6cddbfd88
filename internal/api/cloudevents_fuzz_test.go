package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/cloudevents"
	"github.com/postrider/postrider/internal/fault"
)

// The data of a CloudEvent in structured mode is the very bytes that stand in the request, and what we make of the event is
// read as the same event again.
func FuzzStructuredCloudEvent(f *testing.F) {
	const head = `"specversion":"1.0","id":"1","source":"/s","type":"a"`
	for _, p := range fieldPayloads(f) {
		f.Add(fmt.Appendf(nil, `{%s,"data":%s}`, head, p))
		f.Add(fmt.Appendf(nil, ` { "data" : %s , %s,"time":"2026-11-30T09:00:00Z"} `, p, head))
	}
	f.Add([]byte(`{` + head + `,"d\u0061ta":{"data":[1 ]},"n":-1,"b":true,"subject":"\u00e9<\u2028"}`))
	f.Add([]byte(`{` + head + `,"datacontenttype":"text/plain","data":"a\u0000b"}`))
	f.Add([]byte(`{` + head + `,"datacontenttype":"a/b","data_base64":"AP8="}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var faults fault.Fields
		events, err := readStructured(&faults, bytes.Clone(body), false)
		if err != nil || len(faults) > 0 {
			return
		}
		ev := events[0].event(&faults)
		if len(faults) > 0 {
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(body, &members); err != nil {
			t.Fatalf("%q is taken, though %v", body, err)
		}
		if cloudevents.IsJSON(ev.ContentType) && members["data"] != nil && !bytes.Equal(ev.Payload, members["data"]) {
			t.Errorf("%q: payload %q, want %q", body, ev.Payload, members["data"])
		}
		kept, err := json.Marshal(ev.Metadata[cloudevents.MetadataName])
		if err != nil {
			t.Fatal(err)
		}
		out := cloudevents.Event{
			ID: "evt_1", UID: ev.UID, Tenant: "ten_1", Type: ev.Type, ContentType: ev.ContentType, AcceptedAt: time.Unix(1, 0),
			Kept: kept, Payload: ev.Payload,
		}.Structured()
		again, err := readStructured(&faults, out, false)
		if err != nil || len(faults) > 0 {
			t.Fatalf("%q goes out as %q: %v %v", body, out, err, faults)
		}
		back := again[0].event(&faults)
		if len(faults) > 0 || back.UID != ev.UID || back.Type != ev.Type || back.ContentType != ev.ContentType || !bytes.Equal(back.Payload, ev.Payload) {
			t.Errorf("%q goes out as %q, which is %+v, %v", body, out, back, faults)
		}
		if keptAgain, _ := json.Marshal(back.Metadata[cloudevents.MetadataName]); !bytes.Equal(kept, keptAgain) {
			t.Errorf("%q: attributes %s come back as %s", body, kept, keptAgain)
		}
	})
}
