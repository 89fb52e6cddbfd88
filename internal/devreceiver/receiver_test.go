package devreceiver_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/devreceiver"
	"github.com/postrider/postrider/signer"
)

var now = time.Unix(1_800_000_000, 0)

// subscriber is a receiver with what it reported.
type subscriber struct {
	*devreceiver.Receiver
	trust func(context.Context) (devreceiver.Trust, error)
	asked int

	mu  sync.Mutex
	got []devreceiver.Received
}

func newSubscriber(trust func(context.Context) (devreceiver.Trust, error)) *subscriber {
	s := &subscriber{trust: trust}
	s.Receiver = devreceiver.New(devreceiver.Options{
		Trust: func(ctx context.Context) (devreceiver.Trust, error) {
			s.asked++
			return s.trust(ctx)
		},
		Report: func(r devreceiver.Received) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.got = append(s.got, r)
		},
		MaxBody: 64, Now: func() time.Time { return now },
	})
	return s
}

func trusting(scheme signer.Scheme, secrets ...signer.Secret) func(context.Context) (devreceiver.Trust, error) {
	return func(context.Context) (devreceiver.Trust, error) {
		t := devreceiver.Trust{Scheme: scheme}
		for _, s := range secrets {
			t.Secrets = append(t.Secrets, s.Reveal())
		}
		return t, nil
	}
}

func newSecret(t *testing.T, scheme signer.Scheme) signer.Secret {
	t.Helper()
	s, err := signer.NewSecret(scheme, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// signed makes the request of a delivery as a sender makes it.
func signed(t *testing.T, scheme signer.Scheme, secret signer.Secret, at time.Time, body string) *http.Request {
	t.Helper()
	headers, err := signer.Sign(scheme, "", []signer.Secret{secret}, signer.Message{
		EventID: "evt_1", DeliveryID: "dlv_1", EventType: "order.paid", Timestamp: at.Unix(), Body: []byte(body),
	})
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
	for _, h := range headers {
		req.Header.Set(h.Name, h.Value)
	}
	req.Header.Set(signer.HeaderDeliveryID, "dlv_1")
	req.Header.Set(signer.HeaderEventType, "order.paid")
	req.Header.Set(signer.HeaderAttempt, "2")
	req.Header.Set("Content-Type", "application/json")
	return req
}

func (s *subscriber) take(req *http.Request) int {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, req)
	return w.Code
}

func TestWhatIsSignedInAnySchemeIsVerified(t *testing.T) {
	t.Parallel()
	for _, scheme := range signer.Schemes() {
		t.Run(string(scheme), func(t *testing.T) {
			t.Parallel()
			secret := newSecret(t, scheme)
			s := newSubscriber(trusting(scheme, secret))
			if code := s.take(signed(t, scheme, secret, now, `{"a": 1}`)); code != http.StatusNoContent {
				t.Fatalf("answered %d", code)
			}
			want := devreceiver.Received{
				EventID: "evt_1", DeliveryID: "dlv_1", EventType: "order.paid", Attempt: "2",
				ContentType: "application/json", Body: []byte(`{"a": 1}`), At: now,
			}
			if len(s.got) != 1 || s.got[0].Header.Get(signer.HeaderTimestamp) == "" || s.got[0].Answer.Status != http.StatusNoContent {
				t.Fatalf("reported %+v", s.got)
			}
			got := s.got[0]
			got.Header, got.Answer = nil, devreceiver.Answer{}
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
				t.Errorf("reported %+v, want %+v", got, want)
			}
		})
	}
}

func TestWhatDoesNotVerifyIsRefusedAndReported(t *testing.T) {
	t.Parallel()
	secret, other := newSecret(t, signer.Standard), newSecret(t, signer.Standard)
	for name, c := range map[string]struct {
		change func(*http.Request)
		secret signer.Secret
		at     time.Time
		want   error
	}{
		"another secret": {secret: other, at: now, want: signer.ErrNoMatch},
		"too old":        {secret: secret, at: now.Add(-6 * time.Minute), want: signer.ErrTooOld},
		"not signed": {secret: secret, at: now, want: signer.ErrMissingHeader, change: func(r *http.Request) {
			r.Header.Del(signer.HeaderSignature)
		}},
		"another body": {secret: secret, at: now, want: signer.ErrNoMatch, change: func(r *http.Request) {
			r.Body = http.NoBody
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSubscriber(trusting(signer.Standard, secret))
			req := signed(t, signer.Standard, c.secret, c.at, "{}")
			if c.change != nil {
				c.change(req)
			}
			if code := s.take(req); code != http.StatusBadRequest {
				t.Errorf("answered %d", code)
			}
			if len(s.got) != 1 || !errors.Is(s.got[0].Err, c.want) {
				t.Errorf("reported %+v, want %v", s.got, c.want)
			}
		})
	}
}

func TestARotatedSecretIsAskedForAndTheOldOneCountsWhileItIsThere(t *testing.T) {
	t.Parallel()
	old, fresh := newSecret(t, signer.Standard), newSecret(t, signer.Standard)
	s := newSubscriber(trusting(signer.Standard, old))
	for range 2 {
		if code := s.take(signed(t, signer.Standard, old, now, "{}")); code != http.StatusNoContent {
			t.Fatalf("before the rotation: %d", code)
		}
	}
	if s.asked != 1 {
		t.Errorf("asked %d times for a secret that fits", s.asked)
	}
	s.trust = trusting(signer.Standard, fresh, old)
	for _, secret := range []signer.Secret{fresh, old} {
		if code := s.take(signed(t, signer.Standard, secret, now, "{}")); code != http.StatusNoContent {
			t.Errorf("during the rotation: %d", code)
		}
	}
	s.trust = trusting(signer.Standard, fresh)
	if code := s.take(signed(t, signer.Standard, newSecret(t, signer.Standard), now, "{}")); code != http.StatusBadRequest {
		t.Errorf("a stranger's: %d", code)
	}
	if code := s.take(signed(t, signer.Standard, old, now, "{}")); code != http.StatusBadRequest {
		t.Errorf("the old one after the rotation: %d", code)
	}
}

func TestWithoutASecretARequestIsToComeAgain(t *testing.T) {
	t.Parallel()
	s := newSubscriber(func(context.Context) (devreceiver.Trust, error) {
		return devreceiver.Trust{}, errors.New("the server is not up yet")
	})
	if code := s.take(signed(t, signer.Standard, newSecret(t, signer.Standard), now, "{}")); code != http.StatusServiceUnavailable {
		t.Errorf("answered %d", code)
	}
	if len(s.got) != 1 || s.got[0].Err == nil {
		t.Errorf("reported %+v", s.got)
	}
	s.trust = trusting(signer.Standard)
	if code := s.take(signed(t, signer.Standard, newSecret(t, signer.Standard), now, "{}")); code != http.StatusBadRequest {
		t.Errorf("no secret at all: answered %d", code)
	}
}

func TestWhatIsNoWebhookIsNotReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		req  *http.Request
		want int
	}{
		"a browser":    {httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), http.StatusMethodNotAllowed},
		"too large":    {post(t, bytes.NewReader(make([]byte, 65))), http.StatusRequestEntityTooLarge},
		"breaking off": {post(t, brokenReader{}), http.StatusBadRequest},
	} {
		s := newSubscriber(trusting(signer.Standard))
		if code := s.take(c.req); code != c.want {
			t.Errorf("%s: answered %d, want %d", name, code, c.want)
		}
		if len(s.got) != 0 || s.asked != 0 {
			t.Errorf("%s: reported %+v", name, s.got)
		}
	}
}

func post(t *testing.T, body interface{ Read([]byte) (int, error) }) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("reset") }

func TestRequestsAreReportedOneAtATime(t *testing.T) {
	t.Parallel()
	secret := newSecret(t, signer.Standard)
	inside, most := 0, 0 // the race detector and most tell if two reports run at once
	r := devreceiver.New(devreceiver.Options{
		Trust: trusting(signer.Standard, secret), MaxBody: 64, Now: func() time.Time { return now },
		Report: func(devreceiver.Received) {
			inside++
			most = max(most, inside)
			inside--
		},
	})
	var wg sync.WaitGroup
	for range 20 {
		req := signed(t, signer.Standard, secret, now, "{}")
		wg.Go(func() { r.ServeHTTP(httptest.NewRecorder(), req) })
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("%d reports at once", most)
	}
}

func ExampleNew() {
	r := devreceiver.New(devreceiver.Options{
		Trust: func(context.Context) (devreceiver.Trust, error) {
			return devreceiver.Trust{Scheme: signer.Standard, Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}, nil
		},
		Report: func(got devreceiver.Received) { fmt.Println(got.EventID, got.Err) },
		Now:    func() time.Time { return time.Unix(1614265330, 0) }, MaxBody: 1 << 20,
	})
	req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"test": 2432232314}`))
	req.Header.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	req.Header.Set("webhook-timestamp", "1614265330")
	req.Header.Set("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	r.ServeHTTP(httptest.NewRecorder(), req)
	// Output: msg_p5jXN8AQM9LWM0D4loKWxJek <nil>
}
