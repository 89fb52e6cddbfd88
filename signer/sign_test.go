package signer_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/signer"
)

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	every := signer.Schemes()
	tests := []struct {
		name    string
		schemes []signer.Scheme
		change  func(m *signer.Message)
	}{
		{"no event id", every, func(m *signer.Message) { m.EventID = "" }},
		{"dot in the event id", every, func(m *signer.Message) { m.EventID = "evt.1" }},
		{"line break in the event id", every, func(m *signer.Message) { m.EventID = "evt_1\r\nX-Evil: 1" }},
		{"blank in the event id", every, func(m *signer.Message) { m.EventID = "evt 1" }},
		{"event id beyond ASCII", every, func(m *signer.Message) { m.EventID = "évt_1" }},
		{"line break in the delivery id", every, func(m *signer.Message) { m.DeliveryID = "dlv_1\n" }},
		{"dot in the delivery id", every, func(m *signer.Message) { m.DeliveryID = "dlv.1" }},
		{"line break in the type", every, func(m *signer.Message) { m.EventType = "a\rb" }},
		{"NUL in the type", every, func(m *signer.Message) { m.EventType = "a\x00b" }},
		{"outer blank in the type", every, func(m *signer.Message) { m.EventType = " order.paid" }},
		{"no time", every, func(m *signer.Message) { m.Timestamp = 0 }},
		{"negative time", every, func(m *signer.Message) { m.Timestamp = -1 }},
		{"no delivery id", []signer.Scheme{signer.GitHub, signer.TimestampedHex}, func(m *signer.Message) { m.DeliveryID = "" }},
		{"no type", []signer.Scheme{signer.GitHub}, func(m *signer.Message) { m.EventType = "" }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, scheme := range test.schemes {
				message := vector()
				test.change(&message)
				headers, err := signer.Sign(scheme, "", []signer.Secret{newSecret(t, scheme)}, message)
				if !errors.Is(err, signer.ErrBadMessage) || headers != nil {
					t.Errorf("%s: %v, %v", scheme, headers, err)
				}
			}
		})
	}
}

func TestSignNeedsTheRightSecret(t *testing.T) {
	t.Parallel()
	for _, scheme := range signer.Schemes() {
		for _, secrets := range [][]signer.Secret{nil, {}} {
			if headers, err := signer.Sign(scheme, "", secrets, vector()); !errors.Is(err, signer.ErrNoSecret) || headers != nil {
				t.Errorf("%s without a secret: %v, %v", scheme, headers, err)
			}
		}
		for _, other := range signer.Schemes() {
			if other == scheme {
				continue
			}
			secrets := []signer.Secret{newSecret(t, scheme), newSecret(t, other)}
			if headers, err := signer.Sign(scheme, "", secrets, vector()); !errors.Is(err, signer.ErrNoSecret) || headers != nil {
				t.Errorf("%s with a secret of %s: %v, %v", scheme, other, headers, err)
			}
		}
	}
	secret := newSecret(t, signer.Stripe)
	for _, name := range []string{"X Sig", "X-Sig\r\nEvil", "Host", "webhook-id"} {
		if _, err := signer.Sign(signer.Stripe, name, []signer.Secret{secret}, vector()); !fault.Is(err, fault.Invalid) {
			t.Errorf("stripe signed in the header %q: %v", name, err)
		}
	}
	if _, err := signer.Sign("md5", "", nil, vector()); err == nil {
		t.Error("signed with an unknown scheme")
	}
}

// Every header is sent once, in any case: a receiver that finds two has to guess.
func TestSignSendsEachHeaderOnce(t *testing.T) {
	t.Parallel()
	for _, scheme := range signer.Schemes() {
		headers, err := signer.Sign(scheme, "", []signer.Secret{newSecret(t, scheme), newSecret(t, scheme)}, vector())
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range received(headers) {
			if len(values) != 1 || values[0] == "" || strings.ContainsAny(values[0], "\r\n") {
				t.Errorf("%s: %s is %q", scheme, name, values)
			}
		}
		if !slices.Contains(headers, signer.Header{Name: "webhook-id", Value: vectorID}) ||
			!slices.Contains(headers, signer.Header{Name: "webhook-timestamp", Value: "1614265330"}) {
			t.Errorf("%s lacks what every scheme sends: %v", scheme, headers)
		}
	}
}

// The receiver's library of Standard Webhooks judges what standard sends, with the old and the new secret.
func TestStandardPassesTheReferenceLibrary(t *testing.T) {
	t.Parallel()
	bodies := [][]byte{nil, {}, []byte(vectorBody), []byte("a.b.c"), {0x00, 0xff, 0xfe, '\r', '\n'}, bytes.Repeat([]byte("x"), 1<<20)}
	older, newer, stranger := newSecret(t, signer.Standard), newSecret(t, signer.Standard), newSecret(t, signer.Standard)
	for _, body := range bodies {
		message := signer.Message{EventID: "evt_1", Timestamp: time.Now().Unix(), Body: body} // the library reads the clock
		headers, err := signer.Sign(signer.Standard, "", []signer.Secret{newer, older}, message)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []signer.Secret{older, newer} {
			if err := reference(t, secret).Verify(body, received(headers)); err != nil {
				t.Errorf("body of %d bytes: %v", len(body), err)
			}
			if reference(t, secret).Verify(append(slices.Clone(body), '!'), received(headers)) == nil {
				t.Errorf("body of %d bytes: a changed one passes", len(body))
			}
		}
		if reference(t, stranger).Verify(body, received(headers)) == nil {
			t.Errorf("body of %d bytes: passes with a stranger's secret", len(body))
		}
	}
}

func reference(t *testing.T, secret signer.Secret) *standardwebhooks.Webhook {
	t.Helper()
	hook, err := standardwebhooks.NewWebhook(secret.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	return hook
}

// And the other way: what the reference library signs, Verify takes.
func TestVerifyTakesTheReferenceLibrarysSignature(t *testing.T) {
	t.Parallel()
	signature, err := reference(t, parse(t, signer.Standard, secretB)).Sign("evt_2", vectorNow(), []byte(vectorBody))
	if err != nil {
		t.Fatal(err)
	}
	head := http.Header{}
	head.Set("webhook-id", "evt_2")
	head.Set("webhook-timestamp", fmt.Sprint(vectorTime))
	head.Set("webhook-signature", signature)
	if err := signer.Verify(signer.Standard, "", secretB, head.Get, []byte(vectorBody), vectorNow(), time.Minute); err != nil {
		t.Error(err)
	}
}

func TestSignIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	for _, scheme := range signer.Schemes() {
		secrets := []signer.Secret{newSecret(t, scheme)}
		var group sync.WaitGroup
		for worker := range 4 {
			group.Go(func() {
				for i := range 50 {
					message := vector()
					message.Body = fmt.Appendf(nil, "body %d of %d", i, worker)
					headers, err := signer.Sign(scheme, "", secrets, message)
					if err != nil {
						t.Error(err)
						return
					}
					err = signer.Verify(scheme, "", secrets[0].Reveal(), received(headers).Get, message.Body, vectorNow(), time.Minute)
					if err != nil {
						t.Errorf("%s: %v", scheme, err)
					}
				}
			})
		}
		group.Wait()
	}
}

// Sign leaves the body's spare room alone: the caller may hold other bytes behind it.
func TestSignLeavesTheBodyAlone(t *testing.T) {
	t.Parallel()
	buffer := []byte(vectorBody + "behind")
	message := vector()
	message.Body = buffer[:len(vectorBody)]
	for _, scheme := range signer.Schemes() {
		if _, err := signer.Sign(scheme, "", []signer.Secret{newSecret(t, scheme)}, message); err != nil {
			t.Fatal(err)
		}
		if string(buffer) != vectorBody+"behind" {
			t.Fatalf("%s changed it to %q", scheme, buffer)
		}
	}
}

func newSecret(t testing.TB, scheme signer.Scheme) signer.Secret {
	t.Helper()
	secret, err := signer.NewSecret(scheme, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// What Headers lays out around a kept signature is what Sign gave.
func TestHeadersLayOutWhatSignGave(t *testing.T) {
	t.Parallel()
	for _, scheme := range signer.Schemes() {
		for _, name := range []string{"", "X-My-Signature"} {
			signed, err := signer.Sign(scheme, name, []signer.Secret{newSecret(t, scheme)}, vector())
			if err != nil {
				t.Fatal(err)
			}
			bare := vector()
			bare.Body = nil
			again := signer.Headers(scheme, name, signer.Signature(scheme, name, signed), bare)
			if !slices.Equal(signed, again) {
				t.Errorf("%s: %v, laid out again %v", scheme, signed, again)
			}
		}
	}
}
