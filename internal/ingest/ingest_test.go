package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/ingest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// queue hands out its messages, and what was given back again.
type queue struct {
	open    []*ingest.Message
	acked   []string
	refused map[string]string
	fails   int // so many fetches first
	nowhere bool
	away    int // so many refusals first
}

func (q *queue) put(messages ...ingest.Message) *queue {
	q.refused = map[string]string{}
	for _, m := range messages {
		m := &m
		m.Ack = func() error { q.acked = append(q.acked, m.ID); return nil }
		m.Refuse = func(_ context.Context, reason string) error {
			if q.nowhere {
				return errors.New("nowhere")
			}
			if q.away--; q.away >= 0 {
				q.open = append(q.open, m) // as it was not acknowledged
				return fmt.Errorf("put it apart: %w", ingest.ErrBrokerAway)
			}
			q.refused[m.ID] = reason
			return nil
		}
		q.open = append(q.open, m)
	}
	return q
}

func (q *queue) Fetch(_ context.Context, most int) ([]*ingest.Message, error) {
	if q.fails--; q.fails >= 0 {
		return nil, errors.New("away")
	}
	n := min(most, len(q.open))
	out := slices.Clone(q.open[:n])
	q.open = q.open[n:]
	return out, nil
}

func (q *queue) Empty(context.Context) bool { return len(q.open) == 0 }
func (q *queue) Extend([]*ingest.Message)   {}
func (q *queue) Close() error               { return nil }

// server takes events, but for what its rules say of a call.
type server struct {
	calls []string // the payloads of each, in order
	rule  func(events []client.Event) error
	taken []client.Event
}

func (s *server) Enqueue(_ context.Context, e client.Event) (client.Receipt, error) {
	_, err := s.take([]client.Event{e})
	return client.Receipt{}, err
}

func (s *server) EnqueueBatch(_ context.Context, tenant string, events []client.Event) ([]client.Receipt, error) {
	for _, e := range events {
		if e.Tenant != tenant {
			return nil, errors.New("an event of another tenant")
		}
	}
	return s.take(events)
}

func (s *server) take(events []client.Event) ([]client.Receipt, error) {
	var bodies []string
	for _, e := range events {
		bodies = append(bodies, string(e.Payload))
	}
	s.calls = append(s.calls, strings.Join(bodies, "|"))
	if s.rule != nil {
		if err := s.rule(events); err != nil {
			return nil, err
		}
	}
	s.taken = append(s.taken, events...)
	return make([]client.Receipt, len(events)), nil
}

func run(t *testing.T, q *queue, s *server, o ingest.Options) (ingest.Total, error) {
	t.Helper()
	o.UntilEmpty, o.Log, o.Pause = true, zerolog.Nop(), time.Microsecond
	if o.Batch == 0 {
		o.Batch = 100
	}
	return ingest.Run(t.Context(), q, s, o)
}

func message(id, body string) ingest.Message {
	return ingest.Message{Key: "a", ID: id, Body: []byte(body)}
}

func TestMessagesAsEvents(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 129)
	for name, c := range map[string]struct {
		naming ingest.Naming
		m      ingest.Message
		want   client.Event
	}{
		"flags":    {ingest.Naming{Tenant: "acme", Type: "t"}, ingest.Message{Key: "k", ID: "1", Type: "u"}, client.Event{Tenant: "acme", Type: "t", UID: "1"}},
		"the key":  {ingest.Naming{Tenant: "acme", Prefix: "e."}, ingest.Message{Key: "e.a.b", ID: "1"}, client.Event{Tenant: "acme", Type: "a.b", UID: "1"}},
		"its type": {ingest.Naming{Tenant: "acme"}, ingest.Message{Key: "k", Type: "u", ID: "1"}, client.Event{Tenant: "acme", Type: "u", UID: "1"}},
		"headers": {ingest.Naming{}, ingest.Message{Key: "k", Type: "u", Place: "S:1:2", Header: map[string]string{
			"postrider-tenant": "bravo", "postrider-event-type": "h", "postrider-group-key": "g",
			"postrider-deliver-at": "2026-12-01T09:00:00+01:00", "content-type": "text/plain",
		}}, client.Event{
			Tenant: "bravo", Type: "h", UID: "S:1:2", GroupKey: "g", ContentType: "text/plain", DeliverAt: time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC),
		}},
		"no id":            {ingest.Naming{Tenant: "acme"}, ingest.Message{Key: "k"}, client.Event{Tenant: "acme", Type: "k"}},
		"an id like ours":  {ingest.Naming{Tenant: "acme"}, ingest.Message{Key: "k", ID: "evt_1"}, client.Event{Tenant: "acme", Type: "k", UID: "message:05d74b53e24d28e9c10fb3d9b3bd0d7ba15f39fcd80b4a0e5f3f4ce3d7f08f7c"}},
		"an id too long":   {ingest.Naming{Tenant: "acme"}, ingest.Message{Key: "k", ID: long}, client.Event{Tenant: "acme", Type: "k", UID: "message:"}},
		"an id with blank": {ingest.Naming{Tenant: "acme"}, ingest.Message{Key: "k", ID: "a b"}, client.Event{Tenant: "acme", Type: "k", UID: "message:"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.m.Body = []byte(`{}`)
			q, s := (&queue{}).put(c.m), &server{}
			if total, err := run(t, q, s, ingest.Options{Naming: c.naming}); err != nil || total != (ingest.Total{Stored: 1}) {
				t.Fatal(total, err)
			}
			got := s.taken[0]
			if !got.DeliverAt.Equal(c.want.DeliverAt) {
				t.Errorf("deliver at %s", got.DeliverAt)
			}
			got.Payload, got.DeliverAt, c.want.DeliverAt = nil, time.Time{}, time.Time{}
			if strings.HasPrefix(c.want.UID, "message:") {
				if !strings.HasPrefix(got.UID, "message:") || len(got.UID) != len("message:")+64 {
					t.Errorf("uid %q", got.UID)
				}
				got.UID = c.want.UID
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// What can go together does, and keeps its order; bytes that a batch would change go alone.
func TestCalls(t *testing.T) {
	t.Parallel()
	q := (&queue{}).put(message("1", `1`), message("2", `{"a": 2}`), message("3", "3\n"), message("4", "x"), message("5", `5`), message("6", `6`))
	s := &server{}
	if total, err := run(t, q, s, ingest.Options{Naming: ingest.Naming{Tenant: "acme"}}); err != nil || total.Stored != 6 {
		t.Fatal(total, err)
	}
	if want := []string{`1|{"a": 2}`, "3\n", "x", "5|6"}; !slices.Equal(s.calls, want) {
		t.Errorf("calls: %q", s.calls)
	}
	if !slices.Equal(q.acked, []string{"1", "2", "3", "4", "5", "6"}) {
		t.Errorf("acknowledged: %q", q.acked)
	}
}

func refusal(status int, pointers ...string) error {
	e := &client.Error{Status: status, Title: "No", Detail: "no"}
	for _, p := range pointers {
		e.Errors = append(e.Errors, client.FieldError{Pointer: p, Detail: "is wrong"})
	}
	return e
}

// A call that is refused is told apart: whoever is at fault alone, by its name or by halving.
func TestRefusedMessages(t *testing.T) {
	t.Parallel()
	bad := func(err func(n int) error) func([]client.Event) error {
		return func(events []client.Event) error {
			n := slices.IndexFunc(events, func(e client.Event) bool { return string(e.Payload) == `"bad"` })
			if n < 0 {
				return nil
			}
			return err(n)
		}
	}
	for name, rule := range map[string]func([]client.Event) error{
		"named":                bad(func(n int) error { return refusal(422, fmt.Sprintf("/events/%d/payload/x", n)) }),
		"not named":            bad(func(int) error { return refusal(413) }),
		"by the client itself": bad(func(int) error { return refusal(0) }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := (&queue{}).put(message("1", `1`), message("2", `2`), message("3", `"bad"`), message("4", `4`), message("5", `5`))
			total, err := run(t, q, &server{rule: rule}, ingest.Options{Naming: ingest.Naming{Tenant: "acme"}})
			if err != nil || total != (ingest.Total{Stored: 4, Refused: 1}) {
				t.Fatal(total, err)
			}
			if slices.Sort(q.acked); !slices.Equal(q.acked, []string{"1", "2", "4", "5"}) || q.refused["3"] == "" {
				t.Errorf("acknowledged %q, refused %q", q.acked, q.refused)
			}
		})
	}
}

// Nothing is acknowledged that was not stored, whatever ends the run.
func TestRunThatEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule    error
		nowhere bool
		naming  ingest.Naming
		says    string
	}{
		"the key":        {refusal(401), false, ingest.Naming{Tenant: "acme"}, "401"},
		"the scope":      {refusal(403), false, ingest.Naming{Tenant: "acme"}, "403"},
		"the tenant":     {refusal(404), false, ingest.Naming{Tenant: "acme"}, "404"},
		"not Postrider":  {&client.Error{Status: 404, Title: "Not Found"}, false, ingest.Naming{}, "404"},
		"nowhere to put": {refusal(422), true, ingest.Naming{Tenant: "acme"}, "message 1 (a)"},
		"of nobody":      {nil, true, ingest.Naming{}, "--tenant"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := (&queue{nowhere: c.nowhere}).put(message("1", `1`), message("2", `2`))
			if name == "not Postrider" {
				for _, m := range q.open {
					m.Header = map[string]string{ingest.HeaderTenant: "acme"}
				}
			}
			_, err := run(t, q, &server{rule: func([]client.Event) error { return c.rule }}, ingest.Options{Naming: c.naming, Batch: 2})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Error(err)
			}
			if len(q.acked) > 0 {
				t.Errorf("acknowledged %q", q.acked)
			}
		})
	}
}

// So is a broker that goes away while a message is put apart.
func TestRefusalsThatWait(t *testing.T) {
	t.Parallel()
	q := (&queue{away: 2}).put(message("1", `1`))
	s := &server{rule: func([]client.Event) error { return refusal(422) }}
	total, err := run(t, q, s, ingest.Options{Naming: ingest.Naming{Tenant: "acme"}})
	if err != nil || total.Refused != 1 || len(s.calls) != 3 || q.refused["1"] == "" {
		t.Errorf("%v, %v, %d calls, %v", total, err, len(s.calls), q.refused)
	}
}

// A broker and a server that are away are waited for.
func TestRunThatWaits(t *testing.T) {
	t.Parallel()
	q := (&queue{fails: 5}).put(message("1", `1`), message("2", `2`))
	away := 8
	s := &server{rule: func([]client.Event) error {
		if away--; away >= 0 {
			return []error{errors.New("connection refused"), refusal(503), refusal(429), refusal(408)}[away%4]
		}
		return nil
	}}
	total, err := run(t, q, s, ingest.Options{Naming: ingest.Naming{Tenant: "acme"}})
	if err != nil || total.Stored != 2 || len(s.calls) != 9 {
		t.Errorf("%v, %v, %d calls", total, err, len(s.calls))
	}
}

// A run that is told to stop while the server is away acknowledges nothing.
func TestRunThatIsStopped(t *testing.T) {
	t.Parallel()
	q := (&queue{}).put(message("1", `1`))
	ctx, cancel := context.WithCancel(t.Context())
	s := &server{rule: func([]client.Event) error { cancel(); return refusal(503) }}
	total, err := ingest.Run(ctx, q, s, ingest.Options{Naming: ingest.Naming{Tenant: "acme"}, Batch: 1, Log: zerolog.Nop()})
	if err != nil || total != (ingest.Total{}) || len(q.acked) > 0 {
		t.Errorf("%v, %v, acknowledged %q", total, err, q.acked)
	}
}
