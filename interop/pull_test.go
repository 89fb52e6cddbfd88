//go:build interop

package interop_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/apitest"
	"github.com/postrider/postrider/signer"
)

// TestWhatIsFetched has receivers' libraries judge what comes by a poll, as its owner puts it together: the headers that
// came along, and the payload taken out of its base64.
func TestWhatIsFetched(t *testing.T) {
	t.Parallel()
	server := apitest.Start(t)
	api := func(method, path, contentType, body string, into any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/v1/tenants/"+apitest.Tenant+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+apitest.AdminKey)
		req.Header.Set("Content-Type", contentType)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode >= http.StatusBadRequest {
			t.Fatalf("%s %s: %d %s, %v", method, path, res.StatusCode, answer, err)
		}
		if err := json.Unmarshal(answer, into); err != nil {
			t.Fatal(err)
		}
	}
	var messages []message
	for _, scheme := range signer.Schemes() {
		for name, body := range bodies {
			uid := fmt.Sprintf("%s-%x", scheme, name)
			var made struct {
				Signature struct {
					Secret    string `json:"secret"`
					PublicKey string `json:"public_key"`
				} `json:"signature"`
			}
			api("POST", "/endpoints", "application/json", `{"kind":"pull","uid":"`+uid+`","event_types":["`+uid+`"],"signature":{"scheme":"`+scheme.String()+`"}}`, &made)
			api("POST", "/events/"+url.PathEscape(uid), "application/octet-stream", string(body), &struct{}{})
			var got struct {
				Data []struct {
					Headers map[string]string `json:"headers"`
					Payload string            `json:"payload_base64"`
				} `json:"data"`
			}
			api("GET", "/endpoints/"+uid+"/poll", "", "", &got)
			if len(got.Data) != 1 {
				t.Fatalf("%s: the poll gave %+v", uid, got)
			}
			payload, err := base64.StdEncoding.DecodeString(got.Data[0].Payload)
			if err != nil {
				t.Fatal(err)
			}
			secret := made.Signature.Secret
			if scheme == signer.StandardEd25519 {
				secret = made.Signature.PublicKey
			}
			m := message{
				Name: uid, Scheme: scheme, Verifiers: verifiersFor(scheme, body), Secret: secret,
				SignatureHeader: signer.SignatureHeader(scheme, ""), Headers: got.Data[0].Headers, Body: payload, Expect: accept,
			}
			forged := m
			forged.Name, forged.Body, forged.Expect = uid+" forged", append(payload, ' '), refuse
			messages = append(messages, m, forged)
		}
	}
	verdicts := judge(t, messages)
	for _, m := range messages {
		for _, verifier := range m.Verifiers {
			if got := verdicts[[2]string{m.Name, verifier}]; got.Verdict != m.Expect {
				t.Errorf("%s, %s: %q %s, want %s", m.Name, verifier, got.Verdict, got.Detail, m.Expect)
			}
		}
	}
}
