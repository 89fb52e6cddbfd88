package dispatcher

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/cloudevents"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// posting is a receiver's memory of what came.
type posting struct {
	header http.Header
	body   []byte
}

func (p posting) get(name string) string { return strings.Join(p.header[name], ",") }

// keeping plays a receiver that keeps what it gets, and answers 500 to all but what comes after failures.
func keeping(into *[]posting, failures int) doer {
	return func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if *into = append(*into, posting{r.Header, body}); r.ContentLength != int64(len(body)) {
			return reply(400, nil, "")
		}
		if len(*into) <= failures {
			return reply(500, nil, "")
		}
		return reply(200, nil, "")
	}
}

func (w *world) asking(change func(*subscriptions.NewEndpoint)) id.ID {
	w.Helper()
	n := subscriptions.NewEndpoint{URL: "https://receiver.test/hook", Format: subscriptions.FormatCloudEvents}
	if change != nil {
		change(&n)
	}
	e, _, err := w.store.CreateEndpoint(w.Context(), w.tenant, n)
	if err != nil {
		w.Fatal(err)
	}
	return e.ID
}

func shown(a Attempt, name string) string {
	for _, h := range a.RequestHeaders {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// Every attempt sends the same envelope, signed as it is by each scheme; the history and the request shown for curl say the same.
func TestEnvelopeIsTheSameAtEveryAttempt(t *testing.T) {
	t.Parallel()
	for _, scheme := range signer.Schemes() {
		t.Run(scheme.String(), func(t *testing.T) {
			t.Parallel()
			var got []posting
			w := newWorld(t, keeping(&got, 1))
			endpoint := w.asking(func(n *subscriptions.NewEndpoint) { n.Scheme = scheme })
			delivery := w.enqueue(endpoint, "{ \"b\":1E+2 }")
			w.round(w.d)
			w.advance(time.Hour)
			w.exec(`UPDATE tenants SET uid = 'renamed'`)
			w.round(w.d)
			event := w.get(delivery).Event
			want := `{"specversion":"1.0","id":"` + id.Event.Format(event) + `","source":"/tenants/` + id.Tenant.Format(w.tenant.ID) +
				`","type":"order.paid","time":"` + event.Time().UTC().Format("2006-01-02T15:04:05.000Z") +
				`","datacontenttype":"application/json","data":{ "b":1E+2 }}`
			attempts := w.attempts(delivery)
			if len(got) != 2 || len(attempts) != 2 {
				t.Fatalf("%d attempts, %d are kept", len(got), len(attempts))
			}
			targets, err := w.store.Targets(t.Context(), []id.ID{endpoint})
			if err != nil {
				t.Fatal(err)
			}
			secret := targets[endpoint].Secrets[0]
			key := secret.Reveal()
			if public := secret.PublicKey(); public != "" {
				key = public
			}
			for n, p := range got {
				if string(p.body) != want || p.get("Content-Type") != "application/cloudevents+json; charset=utf-8" {
					t.Errorf("attempt %d: %s as %s, want %s", n+1, p.body, p.get("Content-Type"), want)
				}
				if err := signer.Verify(scheme, "", key, p.get, p.body, time.Now(), 5*time.Minute); err != nil {
					t.Errorf("attempt %d: %v", n+1, err)
				}
				if a := attempts[n]; shown(a, "Content-Type") != cloudevents.ContentType || shown(a, "Content-Length") != strconv.Itoa(len(want)) {
					t.Errorf("history shows %v", a.RequestHeaders)
				}
			}
			desk := NewDesk(DeskDeps{DB: w.db, IDs: w.ids, Now: w.clock, Store: w.store})
			r, err := desk.Request(t.Context(), delivery, "x", time.Now())
			if err != nil || string(r.Body) != want || r.Headers[0].Value != cloudevents.ContentType {
				t.Errorf("to be shown: %s %v, %v", r.Body, r.Headers, err)
			}
		})
	}
}

// What came as a CloudEvent goes out as the same one; a large payload, which does not come with the claim, is in it as well.
func TestCloudEventGoesOutAsItCame(t *testing.T) {
	t.Parallel()
	var got []posting
	w := newWorld(t, keeping(&got, 0))
	endpoint := w.asking(nil)
	large := "{\"x\":\"" + strings.Repeat("<é>", inlinePayload) + "\"}"
	w.enqueue(endpoint, large)
	w.exec(`UPDATE events SET uid = 'A-1', metadata = '{"own": 1, "cloudevents": {"source": "/orders", "time": "2020-01-01T00:00:00.123456Z",
		"subject": "é", "n": -7, "id": "no", "bad name": 1}}'`)
	w.round(w.d)
	want := `{"specversion":"1.0","id":"A-1","source":"/orders","type":"order.paid","n":-7,"subject":"é","time":"2020-01-01T00:00:00.123456Z",` +
		`"datacontenttype":"application/json","data":` + large + `}`
	if len(got) != 1 || string(got[0].body) != want {
		t.Fatalf("%d: %.300s", len(got), got[0].body)
	}
	event := got[0].get("webhook-id")
	w.enqueue(endpoint, `}`) // it says that it is JSON
	w.round(w.d)
	if len(got) != 2 || !bytes.Contains(got[1].body, []byte(`"data_base64":"fQ=="}`)) || got[1].get("webhook-id") == event {
		t.Errorf("%d: %s", len(got), got[1].body)
	}
}

// The history shows of each attempt what was sent then, whatever the endpoint gets now, and as long as the event is kept.
func TestHistoryKnowsTheFormatOfThen(t *testing.T) {
	t.Parallel()
	var got []posting
	w := newWorld(t, keeping(&got, 1))
	endpoint := w.asking(nil)
	delivery := w.enqueue(endpoint, `{}`)
	w.round(w.d)
	raw := subscriptions.FormatRaw
	change := subscriptions.EndpointPatch{Format: subscriptions.Optional[subscriptions.Format]{Given: true, Value: &raw}}
	if _, err := w.store.UpdateEndpoint(t.Context(), w.tenant, id.Endpoint.Format(endpoint), "", change); err != nil {
		t.Fatal(err)
	}
	w.d.Forget(endpoint)
	w.advance(time.Hour)
	w.round(w.d)
	attempts := w.attempts(delivery) // the newest first
	if len(got) != 2 || string(got[1].body) != `{}` || shown(attempts[0], "Content-Type") != "application/json" || shown(attempts[0], "Content-Length") != "2" ||
		shown(attempts[1], "Content-Type") != cloudevents.ContentType || shown(attempts[1], "Content-Length") != strconv.Itoa(len(got[0].body)) {
		t.Errorf("%+v", attempts)
	}
	w.exec(`DELETE FROM events`)
	attempts = w.attempts(delivery)
	if shown(attempts[1], "Content-Type") != cloudevents.ContentType || shown(attempts[1], "Content-Length") != "" {
		t.Errorf("without the event: %+v", attempts[1].RequestHeaders)
	}
}

// Where the attributes cannot be read, no attempt is made, and the claim costs the delivery nothing.
func TestEnvelopeThatCannotBeReadIsPutBack(t *testing.T) {
	t.Parallel()
	var got []posting
	w := newWorld(t, keeping(&got, 0))
	delivery := w.enqueue(w.asking(nil), `{}`)
	gone, err := pgxpool.New(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	w.d.deps.DB = gone // the queue's connections are others
	n, err := w.d.claimOnce(t.Context(), t.Context(), allShards)
	w.d.senders.Wait()
	w.d.deps.DB = w.db
	w.settle(w.d)
	if n != 1 || err != nil || len(got) != 0 {
		t.Fatalf("%d claimed, %v, %d sent", n, err, len(got))
	}
	if d := w.get(delivery); d.State != Pending || d.Attempts != 0 {
		t.Errorf("%+v", d)
	}
}
