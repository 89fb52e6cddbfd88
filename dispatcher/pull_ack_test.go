package dispatcher

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/cloudevents"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

func TestAcknowledgedIsDelivered(t *testing.T) {
	t.Parallel()
	p := newPuller(t)
	e := &ear{}
	p.p.d.deps.Tally = e
	dlv := p.owe(1)[0]
	got := p.poll(1)[0]
	p.advance(5 * time.Second)
	for range 2 {
		if states := p.ack(got.Token, got.Token); !slices.Equal(states, []AckState{Acknowledged, Acknowledged}) {
			t.Errorf("acknowledged: %v", states)
		}
	}
	p.heard("one acknowledgement", e, fmt.Sprintf("attempt %d succeeded false 12:00:06", p.endpoint.N), fmt.Sprintf("finished %d succeeded 12:00:06", p.endpoint.N))
	if d := p.get(dlv); d.State != StateSucceeded || d.Attempts != 1 || d.LastStatus != nil || !d.FinishedAt.Equal(p.clock()) {
		t.Errorf("it is %+v", d)
	}
	attempts := p.attempts(dlv)
	if len(attempts) != 1 || attempts[0].Outcome != Succeeded || *attempts[0].Timings.Total != 5*time.Second || attempts[0].Number != 1 {
		t.Fatalf("its attempts are %+v", attempts)
	}
	kept := http.Header{}
	for _, h := range attempts[0].RequestHeaders {
		kept.Set(h.Name, h.Value)
	}
	for _, h := range got.Headers {
		if kept.Get(h.Name) != h.Value {
			t.Errorf("of %s: %s it kept %q", h.Name, h.Value, kept.Get(h.Name))
		}
	}
	if len(kept) != len(got.Headers) {
		t.Errorf("it kept %v of %v", kept, got.Headers)
	}
}

// Each poll signs anew, by each scheme.
func TestWhatIsFetchedIsSigned(t *testing.T) {
	t.Parallel()
	p := newPuller(t)
	p.owe(1)
	got := p.poll(1)[0]
	header := http.Header{}
	for _, h := range got.Headers {
		header.Set(h.Name, h.Value)
	}
	if err := signer.Verify(signer.Standard, "", p.secret.Reveal(), header.Get, got.Payload, time.Now(), time.Minute); err != nil {
		t.Errorf("the signature: %v", err)
	}
	if header.Get(signer.HeaderAttempt) != "1" || header.Get(signer.HeaderDeliveryID) != id.Delivery.Format(got.Delivery) {
		t.Errorf("the headers are %v", header)
	}
}

// One that asks for CloudEvents fetches them, however short its leases are.
func TestWhatIsFetchedIsInItsFormat(t *testing.T) {
	t.Parallel()
	p := newPuller(t)
	e, secret, err := p.store.CreateEndpoint(t.Context(), p.tenant, subscriptions.NewEndpoint{
		Kind: subscriptions.Pull, Format: subscriptions.FormatCloudEvents,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.enqueuePull(e.ID, `{"n": 1.0}`)
	got, err := p.p.Poll(t.Context(), e.ID, Ask{Limit: 1, Lease: MinPullLease})
	if err != nil || len(got) != 1 {
		t.Fatalf("the poll gave %+v, %v", got, err)
	}
	header := http.Header{}
	for _, h := range got[0].Headers {
		header.Set(h.Name, h.Value)
	}
	var event struct{ ID, Type, SpecVersion string }
	if err := json.Unmarshal(got[0].Payload, &event); err != nil || event.SpecVersion != "1.0" || event.Type != "order.paid" {
		t.Errorf("it is %s, %v", got[0].Payload, err)
	}
	if got[0].ContentType != cloudevents.ContentType || header.Get("Content-Type") != cloudevents.ContentType {
		t.Errorf("it is a %s, and its header says %s", got[0].ContentType, header.Get("Content-Type"))
	}
	if err := signer.Verify(signer.Standard, "", secret.Reveal(), header.Get, got[0].Payload, time.Now(), time.Minute); err != nil {
		t.Errorf("the signature: %v", err)
	}
}

// A lease that has ended counts as long as nobody has leased the delivery again; then it counts for nothing.
func TestAcknowledgedTooLate(t *testing.T) {
	t.Parallel()
	for name, ended := range map[string]func(p *puller){
		"and not put back": func(*puller) {},
		"and put back by a rescue": func(p *puller) {
			if _, err := p.d.rescue(p.Context()); err != nil {
				p.Fatal(err)
			}
			p.settle(p.d)
		},
	} {
		t.Run("ended "+name, func(t *testing.T) {
			t.Parallel()
			p := newPuller(t)
			owed := p.owe(2)
			first := p.poll(2)
			p.advance(2 * time.Minute)
			ended(p)
			if states := p.ack(first[0].Token); states[0] != Acknowledged || p.get(owed[0]).State != StateSucceeded {
				t.Errorf("late, and nobody's: %v, %+v", states, p.get(owed[0]))
			}
			second := p.poll(2)
			if len(second) != 1 || second[0].Delivery != owed[1] {
				t.Fatalf("leased again: %+v", second)
			}
			if states := p.ack(first[1].Token); states[0] != AckLost || p.get(owed[1]).State != InFlight {
				t.Errorf("late, and somebody else's: %v, %+v", states, p.get(owed[1]))
			}
			// Both of one delivery's tokens in one call: the one that is good counts.
			if states := p.ack(first[1].Token, second[0].Token); !slices.Equal(states, []AckState{AckLost, Acknowledged}) {
				t.Errorf("both at once: %v", states)
			}
			if states := p.ack(first[0].Token, first[1].Token); !slices.Equal(states, []AckState{Acknowledged, AckLost}) {
				t.Errorf("once more: %v", states)
			}
		})
	}
}

// What somebody sends again by hand after it was acknowledged is not acknowledged by the token of before.
func TestATokenIsGoodForItsOwnLeaseOnly(t *testing.T) {
	t.Parallel()
	p := newPuller(t)
	dlv := p.owe(1)[0]
	token := p.poll(1)[0].Token
	p.ack(token)
	if _, err := p.d.deps.Desk.Retry(t.Context(), dlv); err != nil {
		t.Fatal(err)
	}
	if states := p.ack(token); states[0] != AckLost || p.get(dlv).State != Pending {
		t.Errorf("%v, and it is %+v", states, p.get(dlv))
	}
	next := p.poll(1)
	if len(next) != 1 || next[0].Attempt != 2 {
		t.Fatalf("sent again, a poll gave %+v", next)
	}
	if _, leased, err := p.d.deps.Desk.CancelEvent(t.Context(), next[0].Event); err != nil || leased != 1 { // it came too late
		t.Errorf("with its event %d are cancelled that are leased, %v", leased, err)
	}
	if states := p.ack(next[0].Token); states[0] != Acknowledged || p.get(dlv).State != StateSucceeded {
		t.Errorf("%v, and it is %+v", states, p.get(dlv))
	}
}

func TestTokensOfOthers(t *testing.T) {
	t.Parallel()
	p := newPuller(t)
	dlv := p.owe(1)[0]
	token := p.poll(1)[0].Token
	other, _ := p.pullEndpoint()
	if acked, err := p.p.Ack(t.Context(), other, p.tenant.ID, []string{token}); err != nil || acked[0].State != AckInvalid || !acked[0].Delivery.IsZero() {
		t.Errorf("at another endpoint: %+v, %v", acked, err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	for at := range raw {
		forged := bytes.Clone(raw)
		forged[at] ^= 1
		if states := p.ack(base64.RawURLEncoding.EncodeToString(forged)); states[0] != AckInvalid {
			t.Fatalf("with byte %d changed: %v", at, states)
		}
	}
	for _, bad := range []string{"", "x", token[1:], token + "A", token[:len(token)-4], token + "\x00", "AQ" + token, string(bytes.Repeat([]byte("A"), 5000))} {
		if states := p.ack(bad); states[0] != AckInvalid {
			t.Errorf("%.20q: %v", bad, states)
		}
	}
	box, err := seal.New([][]byte{bytes.Repeat([]byte{8}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	stranger := p.pull()
	stranger.marks = Marks{box}
	if acked, err := stranger.Ack(t.Context(), p.endpoint, p.tenant.ID, []string{token}); err != nil || acked[0].State != AckInvalid {
		t.Errorf("under another key: %+v, %v", acked, err)
	}
	if p.get(dlv).State != InFlight {
		t.Errorf("it is %+v", p.get(dlv))
	}
}

// Of many acknowledgements at the same moment, each is answered as if it were alone, and one counts.
func TestAcknowledgedByManyAtOnce(t *testing.T) {
	t.Parallel()
	p := newPuller(t)
	p.owe(20)
	var tokens []string
	for _, g := range p.poll(20) {
		tokens = append(tokens, g.Token)
	}
	p.advance(2 * time.Minute)
	if err := p.p.lapse(t.Context(), p.endpoint, p.clock()); err != nil { // so that all of them are late
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 4 {
		mine := slices.Clone(tokens)
		if n%2 == 1 {
			slices.Reverse(mine)
		}
		all.Go(func() {
			acked, err := p.p.Ack(t.Context(), p.endpoint, p.tenant.ID, mine)
			for _, a := range acked {
				if a.State != Acknowledged {
					t.Errorf("%+v", a)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := p.count(`SELECT count(*) FROM attempts WHERE outcome = 'succeeded'`); n != 20 {
		t.Errorf("%d attempts succeeded", n)
	}
}
