package signer_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/signer"
)

// reservedNames are in the spelling of their own documents; the tests try others.
var reservedNames = []string{
	"webhook-id", "webhook-timestamp", "webhook-signature", "Webhook-Anything",
	"postrider-delivery-id", "postrider-event-type", "postrider-attempt", "Postrider-Anything",
	"X-Hub-Signature-256", "X-GitHub-Delivery", "X-GitHub-Event",
	"x-delivery-id", "x-delivery-timestamp", "x-delivery-signature",
	"Host", "User-Agent", "Accept-Encoding",
	"Content-Length", "Content-Type", "Content-Encoding", "Content-Range", "Content-MD5", "Content-Digest", "Repr-Digest", "Digest",
	"Connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Expect", "HTTP2-Settings",
	"Proxy-Authorization", "Proxy-Connection", "Proxy-Anything",
	"Idempotency-Key", "X-Idempotency-Key",
}

func TestCheckStaticHeaderReserved(t *testing.T) {
	t.Parallel()
	for _, name := range reservedNames {
		for _, spelling := range []string{
			name, strings.ToUpper(name), strings.ToLower(name), " " + name, name + " ", " " + name + " ", "\t" + name, name + "\r\n",
			strings.ReplaceAll(name, "-", "_"), strings.Replace(name, "-", "_", 1),
		} {
			err := signer.CheckStaticHeader(spelling, "CANARY")
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%q: %v", spelling, err)
				continue
			}
			if strings.Contains(err.Error(), "CANARY") {
				t.Errorf("%q: %v repeats the value", spelling, err)
			}
		}
	}
	for _, own := range []string{"Stripe-Signature", "stripe-signature", "STRIPE_SIGNATURE"} {
		if err := signer.CheckStaticHeader(own, "x", "Stripe-Signature"); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q in place of the endpoint's own signature: %v", own, err)
		}
	}
	if err := signer.CheckStaticHeader("Stripe-Signature", "x", signer.SignatureHeader(signer.Standard, "")); err != nil {
		t.Errorf("refused where it carries no signature: %v", err)
	}
}

func TestCheckStaticHeaderNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", " ", "X A", "X:Y", "X-A:", ":authority", "X-A\r\nX-B", "X-\x00", "X-é", "X-\x7f", "(X)", "X,Y", `"X"`, "X/Y", "X@Y",
		"X\u00a0", strings.Repeat("x", 129),
	} {
		if err := signer.CheckStaticHeader(name, "x"); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"Authorization", "X-Api-Key", "Cookie", "Accept", "Accept-Language", "Referer", "Origin", "X-Tenant", "x_tenant", "X-Request-Id",
		"X-GitHub-Hook-Id", "Stripe-Signature", "Content-Language", "traceparent", "Webhook", "a", "!#$%&'*+-.^_`|~", strings.Repeat("x", 128),
	} {
		if err := signer.CheckStaticHeader(name, "x"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestCheckStaticHeaderValues(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"CR LF": "a\r\nX-Injected: 1", "CR": "a\rb", "LF": "a\nb", "NUL": "a\x00b", "escape": "a\x1b[0m", "DEL": "a\x7f",
		"C1 control": "a\u0085b", "empty": "", "blank": " ", "blank before": " a", "blank behind": "a ", "tab behind": "a\t", "no-break space behind": "a\u00a0",
		"LF behind": "a\n", "invalid UTF-8": "a\xff", "too long": strings.Repeat("x", 4097), "too long in bytes": strings.Repeat("é", 2049),
	} {
		if err := signer.CheckStaticHeader("X-A", value); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, value := range takenValues {
		if err := signer.CheckStaticHeader("X-A", value); err != nil {
			t.Errorf("%q: %v", value, err)
		}
	}
}

var takenValues = []string{
	"a:b:c", "café", "Bearer abc.def==", "a\tb", "a  b", `"quoted, list"; q=1`, "=?utf-8?q?x?=", "0", strings.Repeat("x", 4096),
}

// What the checks take is what arrives, byte for byte: nothing is left to fail, or to change, when a delivery is sent.
func TestTakenHeadersArrive(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("X-A") }))
	t.Cleanup(server.Close)
	for _, value := range takenValues {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header["X-A"] = []string{value}
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatalf("%q: %v", value, err)
		}
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if arrived := <-got; arrived != value {
			t.Errorf("%q arrived as %q", value, arrived)
		}
	}
}

func TestCheckSignatureHeader(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Webhook-Signature", "webhook-signature", "Stripe-Signature", "X-Acme-Signature", "x"} {
		if err := signer.CheckSignatureHeader(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	bad := []string{"", "X A", "X:Y", " Stripe-Signature", "Stripe-Signature\n", "Authorization", "cookie", "Webhook_Signature", strings.Repeat("x", 129)}
	for _, name := range reservedNames {
		if name != "webhook-signature" {
			bad = append(bad, name, strings.ToUpper(name), strings.ToLower(name))
		}
	}
	for _, name := range bad {
		if err := signer.CheckSignatureHeader(name); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A header that passes can be written and read back as the one header it is.
// FuzzCheckStaticHeader holds that what is accepted is one header to whoever reads the request, as it was given; that Go sends it;
// and that no other spelling of its name, to a receiver that takes "_" for "-", is one of ours.
func FuzzCheckStaticHeader(f *testing.F) {
	for _, name := range []string{
		"X-A", "X A", "X:Y", "", " content-type ", "HOST", "Content-Length", "Transfer-Encoding", "Connection", "Expect", "webhook_id",
		"WEBHOOK-Signature", "postrider_attempt", "Proxy-Authorization", "Idempotency_Key", "X-A\r\nX-B", "X-A\x00", "é", "Authorization",
	} {
		f.Add(name, "b")
	}
	for _, value := range []string{
		"a\r\nX-Injected: 1", "a\nb", "a\rb", "a\x00b", "a:b:c", "", "café", " a", "a ", "a\tb", "\u00a0a", "\x7f", "\u0085", "\xff", "a\r\n b",
		"GET / HTTP/1.1\r\n\r\n", "Bearer x",
	} {
		f.Add("X-A", value)
	}
	f.Add("X-A", "b")
	f.Add("X A", "b\r\nc: d")
	f.Add("webhook_id", "é")
	for _, own := range reservedNames {
		f.Add(own, "x")
		f.Add(" "+own+" ", "x")
		f.Add(strings.ToUpper(own), "")
	}
	for _, value := range []string{"a\r\nX-Injected: 1", "a\x00b", "a:b:c", "", "caf\u00e9", "caf\xe9", "a\tb", " a", "a ", "a\nb"} { // FC-018
		f.Add("X-Value", value)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		if signer.CheckStaticHeader(name, value) != nil {
			return
		}
		if signer.CheckStaticHeader(strings.ReplaceAll(strings.ToUpper(name), "-", "_"), value) != nil {
			t.Errorf("%q is taken, and not as CGI spells it", name)
		}
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			t.Errorf("%q: %q is taken, and Go does not send it", name, value)
		}
		if slices.ContainsFunc(reservedNames, func(own string) bool { return strings.EqualFold(own, name) }) {
			t.Fatalf("%q is taken", name)
		}
		raw := "POST / HTTP/1.1\r\nHost: h\r\n" + name + ": " + value + "\r\nContent-Length: 0\r\n\r\n"
		reader := bufio.NewReader(strings.NewReader(raw))
		request, err := http.ReadRequest(reader)
		if err != nil {
			t.Fatalf("%q: %q cannot be read: %v", name, value, err)
		}
		if rest, _ := io.ReadAll(reader); len(rest) > 0 || len(request.Header) != 2 || request.Header.Get(name) != value {
			t.Errorf("%q: %q is read as %v and %q", name, value, request.Header, rest)
		}
	})
}
