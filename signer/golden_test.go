package signer_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/postrider/postrider/signer"
)

const (
	vectorID   = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorTime = 1614265330
	vectorBody = `{"test": 2432232314}`

	// Two symmetric secrets and an asymmetric one, all published as examples by the makers of the scheme.
	secretA  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secretB  = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	secretEd = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
	seedEd   = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbc=" // the same key, its seed alone
	publicEd = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
	// A second key pair, as the seed alone and as seed and public key.
	seedEd2   = "whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk="
	secretEd2 = "whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTllmU3h6Dt1JKqLSahf2FBSTeius6i4rdBVBKUlrbjxz+A=="
	publicEd2 = "whpk_ZlN4eg7dSSqi0moX9hQUk3orrOouK3QVQSlJa248c/g="
	gitHub    = "It's a Secret to Everybody"
)

// What other tools make of the vector. A's v1 and both v1a are published with the specification and its Go library; the
// v1a were made again with the pyca/cryptography package. The rest comes from openssl, such as
//
//	printf '%s' '1614265330.{"test": 2432232314}' | openssl dgst -sha256 -hmac "$SECRET"
const (
	standardA = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	standardB = "v1,78nXHjpFP0tVJQW5D0SBwmVyyW87BV/rL6MgfM/Bw44="
	ed25519A  = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
	ed25519B  = "v1a,tQ9V2XOqn7jL/DQenEFpqIugdBVtiMmER5mhSkXBNwM0mkATuDe6KYYUuxqtaiHeYGb7KaaBRdM5WqyeFiL8Ag=="
	stripeA   = "2e37df5d4a028c51a7f3133d64ae1e300d2c2c900f1b1d49d4369ad2530f8964"
	stripeB   = "95d993ff26ccd698cc4b6d4f2349bddca4f491f3067821823cd5b804f3aef1b6"
	hexSum    = "535d8497d859c07ff9680d86abba5699ebc7378ff8fa0443f98861d0826821f7"
)

func TestSignGolden(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		scheme     signer.Scheme
		headerName string
		secrets    []string // newest first
		body       string
		want       []signer.Header // after webhook-id and webhook-timestamp
	}{
		{"standard", signer.Standard, "", []string{secretA}, vectorBody, []signer.Header{{"webhook-signature", standardA}}},
		{"standard rotating", signer.Standard, "", []string{secretB, secretA}, vectorBody, []signer.Header{
			{"webhook-signature", standardB + " " + standardA},
		}},
		{"standard ignores a header name", signer.Standard, "X-Sig", []string{secretA}, vectorBody, []signer.Header{
			{"webhook-signature", standardA},
		}},
		{"ed25519", signer.StandardEd25519, "", []string{secretEd}, vectorBody, []signer.Header{{"webhook-signature", ed25519A}}},
		{"ed25519 from a seed, rotating", signer.StandardEd25519, "", []string{seedEd2, secretEd}, vectorBody, []signer.Header{
			{"webhook-signature", ed25519B + " " + ed25519A},
		}},
		{"stripe", signer.Stripe, "", []string{secretA}, vectorBody, []signer.Header{
			{"Webhook-Signature", "t=1614265330,v1=" + stripeA},
		}},
		{"stripe rotating, own header", signer.Stripe, "Stripe-Signature", []string{secretB, secretA}, vectorBody, []signer.Header{
			{"Stripe-Signature", "t=1614265330,v1=" + stripeB + ",v1=" + stripeA},
		}},
		{"github", signer.GitHub, "", []string{gitHub}, "Hello, World!", []signer.Header{
			{"X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
			{"X-GitHub-Delivery", "dlv_1"},
			{"X-GitHub-Event", "order.paid"},
		}},
		{"github, empty body", signer.GitHub, "", []string{gitHub}, "", []signer.Header{
			{"X-Hub-Signature-256", "sha256=66a0c074deaa0f489ead6537e0d32f9a344b90bbeda705b6ed45ecd3b413fb40"},
			{"X-GitHub-Delivery", "dlv_1"},
			{"X-GitHub-Event", "order.paid"},
		}},
		{"github, body that is no text; newest alone", signer.GitHub, "", []string{gitHub, secretB}, "\x00\xff\xfe\r\n", []signer.Header{
			{"X-Hub-Signature-256", "sha256=68dae45eabd15cba0db3e0efebbde17cea7534d0f734b84319a81c618d46c629"},
			{"X-GitHub-Delivery", "dlv_1"},
			{"X-GitHub-Event", "order.paid"},
		}},
		{"timestamped-hex, newest alone", signer.TimestampedHex, "", []string{gitHub, secretA}, vectorBody, []signer.Header{
			{"x-delivery-id", "dlv_1"},
			{"x-delivery-timestamp", "1614265330"},
			{"x-delivery-signature", hexSum},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			message := vector()
			message.Body = []byte(test.body)
			got, err := signer.Sign(test.scheme, test.headerName, parseAll(t, test.scheme, test.secrets...), message)
			if err != nil {
				t.Fatal(err)
			}
			want := append([]signer.Header{{"webhook-id", vectorID}, {"webhook-timestamp", "1614265330"}}, test.want...)
			if len(got) != len(want) {
				t.Fatalf("%d headers %v, want %d", len(got), got, len(want))
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("header %d is %q, want %q", i, got[i], want[i])
				}
			}
		})
	}
}

func vector() signer.Message {
	return signer.Message{
		EventID: vectorID, DeliveryID: "dlv_1", EventType: "order.paid", Timestamp: vectorTime, Body: []byte(vectorBody),
	}
}

func vectorNow() time.Time { return time.Unix(vectorTime, 0) }

func parse(t testing.TB, scheme signer.Scheme, text string) signer.Secret {
	t.Helper()
	secret, err := signer.ParseSecret(scheme, text)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func parseAll(t testing.TB, scheme signer.Scheme, texts ...string) []signer.Secret {
	t.Helper()
	secrets := make([]signer.Secret, 0, len(texts))
	for _, text := range texts {
		secrets = append(secrets, parse(t, scheme, text))
	}
	return secrets
}

// received is what the receiver's HTTP server makes of the headers.
func received(headers []signer.Header) http.Header {
	head := http.Header{}
	for _, h := range headers {
		head.Add(h.Name, h.Value)
	}
	return head
}

func sign(t testing.TB, scheme signer.Scheme, headerName string, message signer.Message, secrets ...string) http.Header {
	t.Helper()
	headers, err := signer.Sign(scheme, headerName, parseAll(t, scheme, secrets...), message)
	if err != nil {
		t.Fatal(err)
	}
	return received(headers)
}
