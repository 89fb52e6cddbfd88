package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
)

// ingesting is a `postrider ingest` that runs.
type ingesting struct {
	*exec.Cmd
	said *os.File
	over chan struct{}
}

// ingest starts one. Its server is p.
func ingest(t *testing.T, p *process, args ...string) *ingesting {
	t.Helper()
	said, err := os.CreateTemp(t.TempDir(), "ingest-*.log")
	if err != nil {
		t.Fatal(err)
	}
	i := &ingesting{Cmd: exec.Command(program, append([]string{"ingest"}, args...)...), said: said, over: make(chan struct{})}
	i.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(said.Name()), "POSTRIDER_URL=" + p.url, "POSTRIDER_API_KEY=" + adminKey,
	}
	i.Stdout, i.Stderr = said, said
	if err := i.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = i.Wait()
		close(i.over)
	}()
	t.Cleanup(func() {
		i.end(syscall.SIGKILL)
		_ = said.Close()
		if t.Failed() {
			t.Log(i.printed())
		}
	})
	return i
}

func (i *ingesting) printed() string {
	said, _ := os.ReadFile(i.said.Name())
	return string(said)
}

// started waits until it takes messages.
func (i *ingesting) started(t *testing.T) *ingesting {
	t.Helper()
	eventually(t, func() string {
		if !strings.Contains(i.printed(), "ingest.started") {
			return "it has not started: " + i.printed()
		}
		return ""
	})
	return i
}

// end sends a signal and waits for the end.
func (i *ingesting) end(how syscall.Signal) (code int) {
	_ = i.Process.Signal(how)
	<-i.over
	return i.ProcessState.ExitCode()
}

// arrived says how often each event of the tenant is there, by its payload, which the receiver got.
func arrived(r *receiver) map[string]int {
	count := map[string]int{}
	seen := map[string]bool{}
	for _, got := range r.requests() {
		if id := got.get("webhook-id"); !seen[id] {
			seen[id] = true
			count[string(got.body)]++
		}
	}
	return count
}

func eachOnce(t *testing.T, r *receiver, n int) {
	t.Helper()
	eventually(t, func() string {
		got := arrived(r)
		for _, times := range got {
			if times > 1 {
				t.Fatalf("one message is %d events", times)
			}
		}
		if len(got) < n {
			return fmt.Sprintf("%d of %d messages have arrived: %q", len(got), n, slices.Sorted(maps.Keys(got)))
		}
		return ""
	})
}

// Messages become events, each one, while the command is killed, the broker is killed and the server is killed in turn.
func TestIngestFromNATS(t *testing.T) {
	t.Parallel()
	b := startNATS(t)
	js := b.stream()
	r := receive(t, always(200))
	at := settings{"HTTP_ADDR": fmt.Sprintf("127.0.0.1:%d", freePort(t))}
	p := serve(t, at)
	tenant := p.tenant()
	p.endpoint(tenant, r.url("/"), nil)
	var sent atomic.Int64
	publish := func(n int) {
		t.Helper()
		for range n {
			k := sent.Add(1)
			m := &nats.Msg{Subject: "events.order.paid", Data: fmt.Appendf(nil, `{"n": %d}`, k), Header: nats.Header{}}
			m.Header.Set(jetstream.MsgIDHeader, fmt.Sprintf("order-%d", k))
			if _, err := js.PublishMsg(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	args := []string{"--nats", b.url, "--stream", "EVENTS", "--strip-prefix", "events.", "--tenant", tenant, "--batch", "20", "--refused-to", "refused"}
	publish(200)
	first := ingest(t, p, args...)
	eventually(t, func() string {
		if len(arrived(r)) < 20 {
			return "nothing is taken"
		}
		return ""
	})
	first.end(syscall.SIGKILL)
	second := ingest(t, p, args...).started(t)
	publish(100)
	b.kill()
	b.launch()
	publish(100)
	p.kill()
	p = serve(t, at) // at the same address
	publish(100)
	eachOnce(t, r, int(sent.Load()))
	if code := second.end(syscall.SIGTERM); code != 0 || !strings.Contains(second.printed(), "0 refused") {
		t.Errorf("exit code %d: %s", code, second.printed())
	}
	got := p.get("/v1/tenants/" + tenant + "/events/order-1")
	if got.text("type") != "order.paid" || got.text("uid") != "order-1" {
		t.Errorf("an event is %v", got)
	}
}

// What the server refuses goes where it is told to, with the reason, and the rest of its batch is stored. Without such a place it
// ends the command, and is still there.
func TestIngestRefusedFromNATS(t *testing.T) {
	t.Parallel()
	b := startNATS(t)
	js := b.stream()
	r := receive(t, always(200))
	p := serve(t, nil)
	tenant := p.tenant()
	p.endpoint(tenant, r.url("/"), nil)
	publish := func(subject, id, body string, header ...string) {
		t.Helper()
		m := &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{"Nats-Msg-Id": {id}}}
		for n := 0; n < len(header); n += 2 {
			m.Header.Set(header[n], header[n+1])
		}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	publish("events.a", "1", `{"n":1}`)
	publish("events.b$c", "2", `{"n":2}`) // no event type
	publish("events.a", "3", "no JSON\n", "Content-Type", "text/plain")
	publish("events.a", "4", `{"n":4}`, "postrider-deliver-at", "tomorrow")
	publish("events.a", "evt_5", `{"n":5}`, "Postrider-Group-Key", "g") // an id that no uid may be
	publish("events.a", "6", "{\"n\":6}\n", "postrider-event-type", "named")
	args := []string{"--nats", b.url, "--stream", "EVENTS", "--strip-prefix", "events.", "--tenant", tenant, "--until-empty"}
	stopped := ingest(t, p, args...)
	<-stopped.over
	if code := stopped.ProcessState.ExitCode(); code != 1 || !strings.Contains(stopped.printed(), "--refused-to") {
		t.Fatalf("exit code %d: %s", code, stopped.printed())
	}
	done := ingest(t, p, append(args, "--refused-to", "refused")...)
	<-done.over
	if code := done.ProcessState.ExitCode(); code != 0 || !strings.Contains(done.printed(), "2 refused") {
		t.Fatalf("exit code %d: %s", code, done.printed())
	}
	eachOnce(t, r, 4)
	got := arrived(r)
	for _, body := range []string{`{"n":1}`, "no JSON\n", `{"n":5}`, "{\"n\":6}\n"} {
		if got[body] != 1 {
			t.Errorf("%q has not arrived: %v", body, got)
		}
	}
	if named := p.get("/v1/tenants/" + tenant + "/events/6"); named.text("type") != "named" {
		t.Errorf("a type in a header: %v", named)
	}
	stream, err := js.Stream(t.Context(), "REFUSED")
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []struct{ id, body, why string }{{"4", `{"n":4}`, "postrider-deliver-at"}, {"2", `{"n":2}`, "an event type has"}} {
		kept, err := stream.GetMsg(t.Context(), uint64(n+1))
		if err != nil {
			t.Fatal(err)
		}
		if string(kept.Data) != want.body || kept.Header.Get("Nats-Msg-Id") != want.id || !strings.Contains(kept.Header.Get("postrider-refused"), want.why) {
			t.Errorf("kept: %q %v", kept.Data, kept.Header)
		}
	}
}

// A stream takes a message's id once: neither the first of two with one id nor the message itself, where it came in, keep what is refused
// from being kept.
func TestIngestRefusesIntoAStreamThatKnowsTheID(t *testing.T) {
	t.Parallel()
	b := startNATS(t)
	js := b.stream()
	p := serve(t, nil)
	tenant := p.tenant()
	m := &nats.Msg{Subject: "events.in.b$c", Data: []byte("1"), Header: nats.Header{"Nats-Msg-Id": {"1"}}} // no event type
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	done := ingest(t, p, "--nats", b.url, "--stream", "EVENTS", "--subject", "events.in.>", "--tenant", tenant, "--until-empty", "--refused-to", "events.refused")
	<-done.over
	if code := done.ProcessState.ExitCode(); code != 0 || !strings.Contains(done.printed(), "1 refused") {
		t.Fatalf("exit code %d: %s", code, done.printed())
	}
	stream, err := js.Stream(t.Context(), "EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := stream.GetLastMsgForSubject(t.Context(), "events.refused")
	if err != nil || string(kept.Data) != "1" || kept.Header.Get("postrider-refused-id") != "1" {
		t.Errorf("kept: %+v, %v", kept, err)
	}
}

// A consumer that somebody deletes is made again.
func TestIngestOutlivesItsConsumer(t *testing.T) {
	t.Parallel()
	b := startNATS(t)
	js := b.stream()
	r := receive(t, always(200))
	p := serve(t, nil)
	tenant := p.tenant()
	p.endpoint(tenant, r.url("/"), nil)
	i := ingest(t, p, "--nats", b.url, "--stream", "EVENTS", "--strip-prefix", "events.", "--tenant", tenant).started(t)
	for n := range 2 {
		if _, err := js.Publish(t.Context(), "events.a", fmt.Appendf(nil, `{"n": %d}`, n)); err != nil {
			t.Fatal(err)
		}
		eachOnce(t, r, n+1)
		if err := js.DeleteConsumer(t.Context(), "EVENTS", "postrider"); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() string {
			if _, err := js.Consumer(t.Context(), "EVENTS", "postrider"); err != nil {
				return i.printed()
			}
			return ""
		})
	}
}

func TestIngestFromRabbitMQ(t *testing.T) {
	t.Parallel()
	b := startRabbit(t)
	ch := b.queues()
	r := receive(t, always(200))
	p := serve(t, nil)
	tenant := p.tenant()
	p.endpoint(tenant, r.url("/"), nil)
	publish := func(n int, m amqp.Publishing) {
		t.Helper()
		m.DeliveryMode, m.MessageId = amqp.Persistent, fmt.Sprintf("m-%d", n)
		if m.Body == nil {
			m.Body = fmt.Appendf(nil, `{"n": %d}`, n)
		}
		confirmed, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", "events", true, false, m)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := confirmed.WaitContext(t.Context()); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	args := []string{"--amqp", b.url, "--queue", "events", "--refused-to", "refused", "--batch", "20"}
	of := amqp.Table{"postrider-tenant": tenant}
	for n := range 200 {
		publish(n, amqp.Publishing{Headers: of, Type: "order.paid"})
	}
	first := ingest(t, p, args...)
	eventually(t, func() string {
		if len(arrived(r)) < 20 {
			return "nothing is taken"
		}
		return ""
	})
	first.end(syscall.SIGKILL)
	second := ingest(t, p, args...).started(t)
	publish(200, amqp.Publishing{Headers: of})                                                               // the routing key is the type
	publish(201, amqp.Publishing{})                                                                          // of nobody
	publish(202, amqp.Publishing{Headers: amqp.Table{"postrider-tenant": "nobody"}})                         // of somebody who is not there
	publish(203, amqp.Publishing{Headers: of, ContentType: "text/csv", Body: []byte("a;b\n")})               // bytes
	publish(204, amqp.Publishing{Headers: amqp.Table{"postrider-tenant": tenant, "n": int32(1)}, Type: "t"}) // a header that is no text
	eachOnce(t, r, 203)
	refused := func() int {
		q, err := ch.QueueDeclarePassive("refused", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		return q.Messages
	}
	eventually(t, func() string {
		if n := refused(); n != 2 {
			return fmt.Sprintf("%d refused", n)
		}
		return ""
	})
	// A broker that goes and comes back is connected to again.
	b.kill()
	b.launch()
	ch = b.queues()
	publish(205, amqp.Publishing{Headers: of, Type: "order.paid"})
	eachOnce(t, r, 204)
	if code := second.end(syscall.SIGINT); code != 0 {
		t.Errorf("exit code %d: %s", code, second.printed())
	}
	kept, ok, err := ch.Get("refused", true)
	if err != nil || !ok || kept.MessageId != "m-201" || !strings.Contains(kept.Headers["postrider-refused"].(string), "postrider-tenant") { //nolint:forcetypeassert // what we put there
		t.Errorf("kept: %v %v %v", kept, ok, err)
	}
}

// What cannot work is said before anything is taken.
func TestIngestThatCannotBegin(t *testing.T) {
	t.Parallel()
	b := startNATS(t)
	js := b.stream()
	p := serve(t, nil)
	tenant := p.tenant()
	nowhere := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	for name, c := range map[string]struct {
		code int
		says string
		args []string
	}{
		"no broker":        {2, "one of --nats and --amqp", nil},
		"both":             {2, "one of --nats and --amqp", []string{"--nats", b.url, "--amqp", "amqp://" + nowhere}},
		"no stream":        {2, "--stream", []string{"--nats", b.url}},
		"no queue":         {2, "--queue", []string{"--amqp", "amqp://" + nowhere}},
		"to itself":        {2, "for ever", []string{"--amqp", "amqp://" + nowhere, "--queue", "q", "--refused-to", "q"}},
		"to what it takes": {1, "for ever", []string{"--nats", b.url, "--stream", "EVENTS", "--refused-to", "events.refused"}},
		"batch":            {2, "--batch", []string{"--nats", b.url, "--stream", "EVENTS", "--batch", "1001"}},
		"not there":        {1, "NOT.THERE", []string{"--nats", b.url, "--stream", "NOT.THERE"}},
		"nobody there":     {1, "connect to NATS", []string{"--nats", "nats://" + nowhere, "--stream", "EVENTS"}},
		"no rabbit":        {1, "connect to RabbitMQ", []string{"--amqp", "amqp://" + nowhere, "--queue", "events"}},
		"no tenant":        {1, "no such tenant", []string{"--nats", b.url, "--stream", "EVENTS", "--tenant", "nobody", "--type", "a", "--refused-to", "refused"}},
		"a bad key":        {1, "401", []string{"--nats", b.url, "--stream", "EVENTS", "--tenant", tenant, "--type", "a", "--api-key", "prk_no"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := js.Publish(context.WithoutCancel(t.Context()), "events.a", []byte(`1`)); err != nil {
				t.Fatal(err)
			}
			i := ingest(t, p, append(c.args, "--durable", "d"+fmt.Sprint(len(name))+name[:1])...)
			<-i.over
			if code := i.ProcessState.ExitCode(); code != c.code || !strings.Contains(i.printed(), c.says) {
				t.Errorf("exit code %d: %s", code, i.printed())
			}
		})
	}
}
