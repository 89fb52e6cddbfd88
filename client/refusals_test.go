package client_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/apitest"
)

// What is wrong is told with its place, whether it is noticed here (status 0) or by the server.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := connect(t, s.URL)
	meta := map[string]any{"a": 1}
	for name, tc := range map[string]struct {
		change  func(*client.Event)
		status  int
		pointer string
	}{
		"no tenant":               {func(e *client.Event) { e.Tenant = "" }, 0, "/tenant"},
		"a tenant that is a path": {func(e *client.Event) { e.Tenant = ".." }, 0, "/tenant"},
		"another tenant":          {func(e *client.Event) { e.Tenant = "nobody/../demo" }, 404, "-"},
		"no type":                 {func(e *client.Event) { e.Type = "" }, 0, "/type"},
		"a type that is a path":   {func(e *client.Event) { e.Type = ".." }, 0, "/type"},
		"a type of more segments": {func(e *client.Event) { e.Type = "evt_1/cancel" }, 0, "/type"},
		"a type too long":         {func(e *client.Event) { e.Type = strings.Repeat("a", 129) }, 0, "/type"},
		"a header in the type":    {func(e *client.Event) { e.ContentType = "text/plain\r\nX-A: b" }, 0, "/content_type"},
		"a key too long":          {func(e *client.Event) { e.IdempotencyKey = strings.Repeat("a", 256) }, 0, "/idempotency_key"},
		"a key of two lines":      {func(e *client.Event) { e.IdempotencyKey = "a\nb" }, 0, "/idempotency_key"},
		"no JSON with metadata":   {func(e *client.Event) { e.Metadata, e.Payload = meta, []byte("a,b") }, 0, "/payload"},
		"nothing with metadata":   {func(e *client.Event) { e.Metadata, e.Payload = meta, nil }, 0, "/payload"},
		"blanks with metadata":    {func(e *client.Event) { e.Metadata, e.Payload = meta, []byte("{}\n") }, 0, "/payload"},
		"two values":              {func(e *client.Event) { e.Metadata, e.Payload = meta, []byte(`1,"uid":2`) }, 0, "/payload"},
		"metadata of no JSON":     {func(e *client.Event) { e.Metadata = map[string]any{"f": func() {}} }, 0, "/metadata"},
		"a group key of no text":  {func(e *client.Event) { e.GroupKey = "\xff" }, 0, "/group_key"},
		"to nobody":               {func(e *client.Event) { e.EndpointIDs = []string{} }, 422, "/endpoint_ids"},
		"to a stranger":           {func(e *client.Event) { e.EndpointIDs = []string{"nowhere"} }, 422, "/endpoint_ids/0"},
		"a uid like an id":        {func(e *client.Event) { e.UID = "evt_1" }, 422, "/uid"},
		"too far ahead":           {func(e *client.Event) { e.DeliverAt = time.Now().Add(91 * 24 * time.Hour) }, 422, "/deliver_at"},
		"no media type":           {func(e *client.Event) { e.ContentType = "json" }, 422, "/content_type"},
		"too much":                {func(e *client.Event) { e.Payload = make([]byte, 2<<20) }, 413, "-"},
	} {
		e := client.Event{Tenant: "demo", Type: "order.paid", Payload: []byte(`{}`)}
		tc.change(&e)
		_, err := c.Enqueue(t.Context(), e)
		if err == nil {
			t.Errorf("%s: taken", name)
			continue
		}
		got := refusal(t, err)
		if got.Status != tc.status || got.Error() == "" || tc.pointer != "-" && !pointsTo(got, tc.pointer) {
			t.Errorf("%s: %d %+v", name, got.Status, got)
		}
	}
	if n := s.Events(t); n != 0 {
		t.Errorf("%d events of refused calls", n)
	}
}

func pointsTo(e *client.Error, pointer string) bool {
	return slices.ContainsFunc(e.Errors, func(f client.FieldError) bool { return f.Pointer == pointer && f.Detail != "" })
}

func TestRefusedBatches(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := connect(t, s.URL)
	good := client.Event{Type: "order.paid", Payload: []byte(`{}`)}
	with := func(change func(*client.Event)) []client.Event {
		bad := good
		change(&bad)
		return []client.Event{good, bad, good}
	}
	for name, tc := range map[string]struct {
		events  []client.Event
		status  int
		pointer string
	}{
		"none":            {nil, 0, "/events"},
		"too many":        {make([]client.Event, 1001), 0, "/events"},
		"no JSON":         {with(func(e *client.Event) { e.Payload = []byte("a;b") }), 0, "/events/1/payload"},
		"blanks":          {with(func(e *client.Event) { e.Payload = []byte(" {}") }), 0, "/events/1/payload"},
		"a key":           {with(func(e *client.Event) { e.IdempotencyKey = "k" }), 0, "/events/1/idempotency_key"},
		"another tenant":  {with(func(e *client.Event) { e.Tenant = "acme" }), 0, "/events/1/tenant"},
		"no type":         {with(func(e *client.Event) { e.Type = "" }), 0, "/events/1/type"},
		"a uid like ours": {with(func(e *client.Event) { e.UID = "evt_1" }), 422, "/events/1/uid"},
	} {
		_, err := c.EnqueueBatch(t.Context(), "demo", tc.events)
		if err == nil {
			t.Errorf("%s: taken", name)
			continue
		}
		if got := refusal(t, err); got.Status != tc.status || !pointsTo(got, tc.pointer) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if n := s.Events(t); n != 0 {
		t.Errorf("%d events of refused calls", n)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	const url, key = "https://postrider.example.com", "prk_1"
	for name, tc := range map[string]struct {
		url, key string
		opt      client.Option
	}{
		"no URL":          {"", key, nil},
		"no scheme":       {"postrider.example.com", key, nil},
		"another scheme":  {"ftp://postrider.example.com", key, nil},
		"a password":      {"https://a:b@postrider.example.com", key, nil},
		"a query":         {url + "?a=b", key, nil},
		"no key":          {url, "", nil},
		"a key's newline": {url, key + "\n", nil},
		"retries":         {url, key, client.WithRetries(-1)},
		"backoff":         {url, key, client.WithBackoff(2, 1)},
		"timeout":         {url, key, client.WithTimeout(0)},
		"agent":           {url, key, client.WithUserAgent("a\nb")},
		"client":          {url, key, client.WithHTTPClient(nil)},
	} {
		opts := []client.Option{}
		if tc.opt != nil {
			opts = append(opts, tc.opt)
		}
		c, err := client.New(tc.url, tc.key, opts...)
		if err == nil || c != nil || strings.Contains(err.Error(), "a:b@") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The program's own client stays as it is, whatever ours has to do with it.
func TestHTTPClientIsNotChanged(t *testing.T) {
	t.Parallel()
	own := &http.Client{}
	if _, err := client.New("http://127.0.0.1:1", "prk_1", client.WithHTTPClient(own)); err != nil || own.CheckRedirect != nil {
		t.Error(err, own.CheckRedirect != nil)
	}
}
