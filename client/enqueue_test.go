package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/apitest"
)

// stored is an event as it is in the database.
type stored struct {
	Type, ContentType string
	UID, GroupKey     *string
	Payload           []byte
	Metadata          *string
	DeliverAt         *time.Time
}

// read finds an event through the API, but for its payload's bytes, which the API gives alone.
func read(t *testing.T, s *apitest.Server, id string) (e stored) {
	t.Helper()
	get := func(path string) []byte {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/tenants/demo/events/"+id+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+apitest.AdminKey)
		transport := &http.Transport{DisableKeepAlives: true}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var body bytes.Buffer
		if _, err := body.ReadFrom(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %v", path, resp.StatusCode, err)
		}
		if path == "/payload" {
			e.ContentType = resp.Header.Get("Content-Type")
		}
		return body.Bytes()
	}
	var view struct {
		Type      string
		UID       *string
		GroupKey  *string `json:"group_key"`
		Metadata  json.RawMessage
		DeliverAt *time.Time `json:"deliver_at"`
	}
	if err := json.Unmarshal(get(""), &view); err != nil {
		t.Fatal(err)
	}
	e.Payload = get("/payload")
	e.Type, e.UID, e.GroupKey, e.DeliverAt = view.Type, view.UID, view.GroupKey, view.DeliverAt
	if len(view.Metadata) > 0 {
		text := string(view.Metadata)
		e.Metadata = &text
	}
	return e
}

// Bytes in, bytes out: whatever the payload is, and whichever call it takes.
func TestEnqueueKeepsBytes(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := connect(t, s.URL)
	odd := []byte("{ \"b\": 1,\n\t\"a\": [\"<R&D>\", \"na\\u00efve 日本\"], \"b\": 1E+2, \"z\": -0 }")
	later := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	for name, e := range map[string]client.Event{
		"JSON":             {Payload: odd},
		"blanks around it": {Payload: []byte(" {}\n")},
		"nothing":          {Payload: nil},
		"no text":          {Payload: []byte{0, 0xff, 0xfe, '\r', '\n', 0xc3}, ContentType: "application/octet-stream"},
		"CSV":              {Payload: []byte("order;amount\r\nA-1;1\r\n"), ContentType: "text/csv; charset=utf-8"},
		"all of a raw call": {
			Payload: odd, UID: "a:b.c-d_e", GroupKey: "order 7 / ü & co", DeliverAt: later.In(time.FixedZone("east", 3*3600)),
		},
		"a CloudEvent": {
			Payload:     []byte(`{ "specversion": "1.0", "id": "1", "source": "/shop", "type": "com.shop.paid", "data": {"n": 1E+2} }`),
			ContentType: "Application/CloudEvents+json; charset=utf-8",
		},
		"a CloudEvent behind a blank": {Payload: []byte(`{"specversion":"1.0","id":"2","source":"/s","type":"order.paid","data":1}`), ContentType: " application/cloudevents+json"},
		"an envelope":                 {Payload: odd, Metadata: map[string]any{"source": "<shop>"}},
		"all of an envelope": {
			Payload: odd, UID: "env-1", GroupKey: "order 7 / ü & co", DeliverAt: later, ContentType: "application/vnd.shop+json",
			Metadata: map[string]any{"n": 1},
		},
	} {
		e.Tenant, e.Type = "demo", "order.paid"
		r, err := c.Enqueue(t.Context(), e)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		status := "succeeded" // nobody subscribes here
		if !e.DeliverAt.IsZero() && r.Status == "scheduled" {
			status = "scheduled"
		}
		if r.Type != e.Type || r.UID != e.UID || r.Status != status || r.Deliveries != 0 || r.CreatedAt.IsZero() || r.Replayed {
			t.Errorf("%s: %+v", name, r)
		}
		got := read(t, s, r.ID)
		if !bytes.Equal(got.Payload, e.Payload) {
			t.Errorf("%s: the payload became %q", name, got.Payload)
		}
		want := strings.TrimSpace(e.ContentType)
		if want == "" {
			want = "application/json"
		}
		if got.ContentType != want {
			t.Errorf("%s: the content type became %q", name, got.ContentType)
		}
		if e.UID != "" && (got.UID == nil || *got.UID != e.UID || got.GroupKey == nil || *got.GroupKey != e.GroupKey) {
			t.Errorf("%s: uid and group key became %v, %v", name, got.UID, got.GroupKey)
		}
		if (got.Metadata != nil && *got.Metadata != "{}" && *got.Metadata != "null") != (e.Metadata != nil) {
			t.Errorf("%s: the metadata became %v", name, got.Metadata)
		}
	}
}

func TestDeliverAtAndEndpoints(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := connect(t, s.URL)
	first, second := endpoint(t, s, "first"), endpoint(t, s, "second")
	later := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	for _, c1 := range []struct {
		name       string
		endpoints  []string
		deliveries int
	}{{"all", nil, 2}, {"one, by its id", []string{first}, 1}, {"both, by uid and id", []string{"first", second}, 2}} {
		r, err := c.Enqueue(t.Context(), client.Event{
			Tenant: "demo", Type: "order.paid", Payload: []byte(`{}`), EndpointIDs: c1.endpoints, DeliverAt: later,
		})
		if err != nil || r.Deliveries != c1.deliveries || r.Status != "scheduled" || !r.DeliverAt.Equal(later) {
			t.Errorf("%s: %+v %v", c1.name, r, err)
		}
	}
}

// endpoint makes one and gives its id.
func endpoint(t *testing.T, s *apitest.Server, uid string) string {
	t.Helper()
	body := fmt.Sprintf(`{"url": "https://hooks.example.com/%s", "uid": %q}`, uid, uid)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/tenants/demo/endpoints", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+apitest.AdminKey)
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var made struct{ ID string }
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatal(resp.StatusCode, err)
	}
	return made.ID
}

func TestBatch(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := connect(t, s.URL)
	events := make([]client.Event, 1000)
	for n := range events {
		events[n] = client.Event{
			Type: fmt.Sprintf("type.%d", n), UID: fmt.Sprintf("row:%d", n), Payload: fmt.Appendf(nil, `{ "n":%d, "x":"<&>" }`, n), GroupKey: "g",
		}
	}
	events[7].Tenant, events[8].Metadata = "demo", map[string]any{"a": 1}
	for round, replayed := range []bool{false, true} { // the second call is another one, with another key: the uids make it safe
		receipts, err := c.EnqueueBatch(t.Context(), "demo", events)
		if err != nil {
			t.Fatal(err)
		}
		for n, r := range receipts {
			if r.Type != events[n].Type || r.UID != events[n].UID || r.Replayed != replayed {
				t.Fatalf("round %d: receipt %d is %+v", round, n, r)
			}
		}
		if got := read(t, s, receipts[999].ID); !bytes.Equal(got.Payload, events[999].Payload) {
			t.Errorf("the payload became %q", got.Payload)
		}
	}
	if n := s.Events(t); n != 1000 {
		t.Errorf("%d events", n)
	}
}

func TestRepetitions(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := connect(t, s.URL)
	for name, e := range map[string]client.Event{
		"by key": {IdempotencyKey: "order-7 paid"}, "by uid": {UID: "order-7"},
	} {
		e.Tenant, e.Type, e.Payload = "demo", "order.paid", []byte(`{"order":7}`)
		before := s.Events(t)
		var ids [2]string
		for n, replayed := range []bool{false, true} {
			r, err := c.Enqueue(t.Context(), e)
			if err != nil || r.Replayed != replayed {
				t.Fatalf("%s: %+v %v", name, r, err)
			}
			ids[n] = r.ID
		}
		if ids[0] != ids[1] || s.Events(t) != before+1 {
			t.Errorf("%s: %v, and %d events more", name, ids, s.Events(t)-before)
		}
		e.Payload = []byte(`{"order":8}`)
		_, err := c.Enqueue(t.Context(), e)
		if refusal(t, err).Status != http.StatusUnprocessableEntity {
			t.Errorf("%s with other content: %v", name, err)
		}
	}
}

// One client serves many goroutines, over connections that are kept.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := connect(t, s.URL)
	var all sync.WaitGroup
	for n := range 16 {
		all.Go(func() {
			for m := range 8 {
				e := client.Event{Tenant: "demo", Type: "order.paid", Payload: fmt.Appendf(nil, `[%d,%d]`, n, m)}
				if _, err := c.Enqueue(t.Context(), e); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := s.Events(t); n != 128 {
		t.Errorf("%d events", n)
	}
}

// The server commits, and the answer is lost: the next try finds what the first one made.
func TestAnswerLostAfterTheCommit(t *testing.T) {
	t.Parallel()
	for name, enqueue := range map[string]func(ctx context.Context, c *client.Client) error{
		"raw": func(ctx context.Context, c *client.Client) error {
			r, err := c.Enqueue(ctx, client.Event{Tenant: "demo", Type: "order.paid", Payload: []byte("raw"), ContentType: "text/plain"})
			if err == nil && (r.ID == "" || !r.Replayed) {
				return fmt.Errorf("no receipt of a repetition: %+v", r)
			}
			return err
		},
		"envelope": func(ctx context.Context, c *client.Client) error {
			_, err := c.Enqueue(ctx, client.Event{Tenant: "demo", Type: "a", Payload: []byte("1"), Metadata: map[string]any{"a": 1}})
			return err
		},
		"batch": func(ctx context.Context, c *client.Client) error {
			_, err := c.EnqueueBatch(ctx, "demo", []client.Event{{Type: "order.paid", Payload: []byte("1")}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := apitest.Start(t)
			proxy := apitest.Cut(t, s.URL, 3)
			if err := enqueue(t.Context(), connect(t, proxy.URL)); err != nil {
				t.Error(err)
			}
			if passed, events := proxy.Passed.Load(), s.Events(t); passed != 4 || events != 1 {
				t.Errorf("%d requests made %d events", passed, events)
			}
		})
	}
}
