package signer_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/postrider/postrider/signer"
)

// What one attempt carries, in a rotation: the new secret's signature and then the old one's.
func ExampleSign() {
	var secrets []signer.Secret
	for _, text := range []string{"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"} {
		secret, err := signer.ParseSecret(signer.Standard, text)
		if err != nil {
			fmt.Println(err)
			return
		}
		secrets = append(secrets, secret)
	}
	headers, err := signer.Sign(signer.Standard, "", secrets, signer.Message{
		EventID:   "msg_p5jXN8AQM9LWM0D4loKWxJek",
		Timestamp: 1614265330,
		Body:      []byte(`{"test": 2432232314}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, h := range headers {
		fmt.Printf("%s: %s\n", h.Name, strings.ReplaceAll(h.Value, " ", "\n\t"))
	}
	// Output:
	// webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek
	// webhook-timestamp: 1614265330
	// webhook-signature: v1,78nXHjpFP0tVJQW5D0SBwmVyyW87BV/rL6MgfM/Bw44=
	//	v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=
}

// A receiver reads the whole body first and verifies those very bytes.
func ExampleVerify() {
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
			return
		}
		now := time.Unix(1614265342, 0) // time.Now(), were this no example
		err = signer.Verify(signer.GitHub, "", "It's a Secret to Everybody", r.Header.Get, body, now, 5*time.Minute)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
	for _, body := range []string{"Hello, World!", "Hello, Mars!"} {
		request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		request.Header.Set("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
		recorder := httptest.NewRecorder()
		handler(recorder, request)
		fmt.Printf("%d %q\n", recorder.Code, strings.TrimSpace(recorder.Body.String()))
	}
	// Output:
	// 204 ""
	// 401 "no signature matches: another secret signed it, or the body or the signed headers were changed"
}

func ExampleNewSecret() {
	secret, err := signer.NewSecret(signer.StandardEd25519, rand.Reader)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(secret)
	fmt.Println(secret.Reveal()[:5], len(secret.Reveal()))
	fmt.Println(secret.PublicKey()[:5], len(secret.PublicKey()))
	// Output:
	// [redacted]
	// whsk_ 93
	// whpk_ 49
}

func ExampleParseSecret() {
	_, err := signer.ParseSecret(signer.Standard, "whsec_QUJD")
	fmt.Println(err)
	// Output: the secret holds a key of 3 bytes; it has to be 24 to 64 bytes, in base64 after "whsec_"
}

func ExampleCheckStaticHeader() {
	fmt.Println(signer.CheckStaticHeader("Authorization", "Bearer abc"))
	fmt.Println(signer.CheckStaticHeader("webhook_id", "evt_1"))
	fmt.Println(signer.CheckStaticHeader("X-Tenant", "acme\r\nX-Injected: 1"))
	// Output:
	// <nil>
	// the header webhook_id cannot be set: names that begin so are Postrider's own
	// a header's value cannot hold a line break
}
