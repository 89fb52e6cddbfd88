package dispatcher_test

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
)

func (o *office) attempts(dlv id.ID, limit int, before id.ID) []dispatcher.Attempt {
	o.Helper()
	as, err := o.desk.Attempts(o.Context(), dlv, limit, before)
	if err != nil {
		o.Fatal(err)
	}
	return as
}

// version notes what an endpoint looked like from a version on.
func (o *office) version(ep id.ID, number int, url string, scheme signer.Scheme, header string, names ...string) {
	o.Helper()
	o.exec(`INSERT INTO endpoint_versions (shard, endpoint_id, version, url, header_names, scheme, signature_header, created_at)
		VALUES ($1, $2, $3, $4, coalesce($5::text[], '{}'), $6, $7, $8)`, ep.Shard, ep.N, number, url, names, string(scheme), header, noon)
}

func TestAttemptsShowAllThatIsKept(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ten := o.tenant()
	ep, evt := o.endpoint(ten, "enabled", ""), o.event(ten, "", "order.paid", `{"n":1}`)
	dlv := o.delivery(row{ten: ten, ep: ep, evt: evt, state: "failed", attempts: 1, reason: "exhausted"})
	o.version(ep, 1, "https://one.example/hook?token=hush", signer.Standard, "", "Authorization", "X-Team")
	att := o.ids.In(ten.Shard)
	o.exec(`INSERT INTO user_agents (id, name) VALUES (3, 'Postrider/1.0')`)
	o.exec(`INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, status,
		outcome, dns_us, connect_us, tls_us, first_byte_us, total_us, address, user_agent, signature, error, response_headers,
		response_body, response_truncated)
		VALUES ($1, $2, $3, $4, 1796040000, 1, 1, 503, 'retryable', 1000, 2000, 3000, 9000, 10000, '192.0.2.7:443',
		3, 'v1,abc=', 'the endpoint answered 503', $5, $6, true)`,
		att.Shard, att.N, dlv.N, ep.N, []byte("Content-Type: text/html\r\nX-Odd: \xff\x00\r\n"), []byte("\x00\xff<b>"))
	got := o.attempts(dlv, 10, id.ID{})[0]
	us := func(n int) *time.Duration { d := time.Duration(n) * time.Microsecond; return &d }
	for what, pair := range map[string][2]any{
		"id":        {got.ID, att},
		"delivery":  {got.Delivery, dlv},
		"number":    {got.Number, 1},
		"start":     {got.StartedAt.UTC(), noon},
		"url":       {got.URL, "https://one.example/hook?token=hush"},
		"status":    {*got.Status, 503},
		"outcome":   {got.Outcome, dispatcher.Retryable},
		"error":     {got.Error, "the endpoint answered 503"},
		"dns":       {*got.Timings.DNS, *us(1000)},
		"connect":   {*got.Timings.Connect, *us(2000)},
		"tls":       {*got.Timings.TLS, *us(3000)},
		"first":     {*got.Timings.FirstByte, *us(9000)},
		"total":     {*got.Timings.Total, *us(10000)},
		"address":   {got.Address, "192.0.2.7:443"},
		"body":      {string(got.ResponseBody), "\x00\xff<b>"},
		"truncated": {got.Truncated, true},
		"answered": {
			fmt.Sprintf("%q", got.ResponseHeaders), fmt.Sprintf("%q", []signer.Header{{Name: "Content-Type", Value: "text/html"}, {Name: "X-Odd", Value: "\uFFFD\x00"}}),
		},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %v, want %v", what, pair[0], pair[1])
		}
	}
	want := []signer.Header{
		{Name: "Content-Type", Value: "application/json"},
		{Name: "User-Agent", Value: "Postrider/1.0"},
		{Name: "Accept-Encoding", Value: "identity"},
		{Name: "webhook-id", Value: id.Event.Format(evt)},
		{Name: "webhook-timestamp", Value: "1796040000"},
		{Name: "webhook-signature", Value: "v1,abc="},
		{Name: "postrider-delivery-id", Value: id.Delivery.Format(dlv)},
		{Name: "postrider-event-type", Value: "order.paid"},
		{Name: "postrider-attempt", Value: "1"},
		{Name: "Authorization", Value: "[redacted]"},
		{Name: "X-Team", Value: "[redacted]"},
		{Name: "Content-Length", Value: "7"},
	}
	if !slices.Equal(got.RequestHeaders, want) {
		t.Errorf("got  %v\nwant %v", got.RequestHeaders, want)
	}
}

// What signer.Sign adds is shown again, from what an attempt keeps, header by header.
func TestAttemptsShowEachSchemesHeaders(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ten := o.tenant()
	for _, scheme := range signer.Schemes() {
		secret, err := signer.NewSecret(scheme, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		custom := ""
		if scheme == signer.Stripe {
			custom = "X-Signed"
		}
		ep, evt := o.endpoint(ten, "enabled", ""), o.event(ten, "", "order.paid", `{"n":1}`)
		dlv := o.delivery(row{ten: ten, ep: ep, evt: evt, state: "succeeded", attempts: 1, outcome: "succeeded"})
		sent, err := signer.Sign(scheme, custom, []signer.Secret{secret}, signer.Message{
			EventID: id.Event.Format(evt), DeliveryID: id.Delivery.Format(dlv), EventType: "order.paid", Timestamp: 1796040000,
			Body: []byte(`{"n":1}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		o.version(ep, 1, "https://example.com", scheme, custom)
		o.exec(`INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt,
			outcome, signature) VALUES ($1, $2, $3, $4, 1796040000, 1, 1, 'succeeded', $5)`,
			ep.Shard, o.ids.Next(), dlv.N, ep.N, signer.Signature(scheme, custom, sent))
		got := o.attempts(dlv, 1, id.ID{})[0].RequestHeaders
		var text []string
		for _, h := range got {
			text = append(text, h.Name+": "+h.Value)
		}
		for _, h := range sent {
			if !slices.Contains(text, h.Name+": "+h.Value) {
				t.Errorf("%s: %v is not among\n%s", scheme, h, strings.Join(text, "\n"))
			}
		}
	}
}

// An endpoint's version counts every change, and only some of them leave a row: an attempt shows the newest up to its own.
func TestAttemptsShowTheEndpointAsItWas(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ten := o.tenant()
	ep := o.endpoint(ten, "enabled", "")
	dlv := o.delivery(row{ten: ten, ep: ep, state: "pending", attempts: 4})
	o.version(ep, 1, "https://one.example", signer.Standard, "")
	o.version(ep, 4, "https://four.example", signer.GitHub, "")
	for i, version := range []int{1, 3, 4, 9} {
		o.exec(`INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, outcome)
			VALUES ($1, $2, $3, $4, 1, $5, $6, 'timeout')`, ep.Shard, o.ids.Next(), dlv.N, ep.N, version, i+1)
	}
	var got []string
	var before id.ID
	for { // by pages of three
		page := o.attempts(dlv, 3, before)
		for _, a := range page {
			got = append(got, fmt.Sprint(a.Number, " ", a.URL))
		}
		if len(page) < 3 {
			break
		}
		before = page[2].ID
	}
	want := "4 https://four.example; 3 https://four.example; 2 https://one.example; 1 https://one.example"
	if strings.Join(got, "; ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Of an attempt whose process died nobody knows what it sent or got; of an event that is gone, what it carried.
func TestAttemptsShowWhatIsKnownAndNoMore(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ten := o.tenant()
	ep := o.endpoint(ten, "enabled", "")
	dlv := o.delivery(row{ten: ten, ep: ep, state: "pending", attempts: 1})
	if got := o.attempts(dlv, 10, id.ID{}); len(got) != 0 {
		t.Errorf("got %v before there were any", got)
	}
	o.exec(`INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, outcome)
		VALUES ($1, $2, $3, $4, 1, 1, 1, 'unknown')`, ep.Shard, o.ids.Next(), dlv.N, ep.N)
	o.exec(`DELETE FROM events`)
	got := o.attempts(dlv, 10, id.ID{})[0]
	if got.Status != nil || got.Timings != (dispatcher.Timings{}) || got.URL != "" || got.ResponseHeaders != nil || got.ResponseBody != nil {
		t.Errorf("got %+v", got)
	}
	for _, h := range got.RequestHeaders {
		if h.Value == "" || h.Name == "webhook-signature" || h.Name == "User-Agent" || h.Name == "Content-Type" {
			t.Errorf("shows %v", h)
		}
	}
	if _, err := o.desk.Attempts(t.Context(), o.ids.In(ten.Shard), 10, id.ID{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("of an unknown delivery: %v", err)
	}
}
