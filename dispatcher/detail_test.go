package dispatcher

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// endpointAt makes an endpoint with a token in its URL and two in headers, one of which begins like the other.
func (w *world) endpointAt(url string) id.ID {
	w.Helper()
	e, _, err := w.store.CreateEndpoint(w.Context(), w.tenant, subscriptions.NewEndpoint{
		URL: url + "/hook?a=CANARY%2Bone&CANARYtwo", Headers: []signer.Header{
			{Name: "X-Account", Value: "acme"}, {Name: "Authorization", Value: `Bearer CANARY"three`}, {Name: "X-Key", Value: "acme-CANfour"},
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	return e.ID
}

// What staff may read of a failure holds addresses, and nothing of the request that is secret, also if the receiver repeats it;
// what has an answer has no such words.
func TestErrorDetail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.d.deps.Doer = over(t, nil).deps.Doer
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := ln.Addr().String()
	_ = ln.Close()
	// A line without a blank is repeated as a whole.
	echo := raw(t, "CANARY%2Bone|CANARYtwo|CANARY\"three|CANARY+one|acme-CANfour|"+strings.Repeat("x", 2000)+"\r\n\r\n")
	for _, c := range []struct {
		name, url     string
		outcome       Outcome
		error, detail string // what they hold
	}{
		{"refused", "https://" + closed, ConnectError, "nothing listens there", "dial tcp " + closed + ": connect: connection refused"},
		{"an answer that is none", "http" + strings.TrimPrefix(echo, "https"), ProtocolError, "not valid HTTP", `malformed HTTP response "` + strings.Repeat(hidden+"|", 5) + "xxx"},
	} {
		delivery := w.enqueue(w.endpointAt(c.url), "{}")
		w.round(w.d)
		a := w.attempts(delivery)[0]
		if a.Outcome != c.outcome || !strings.Contains(a.Error, c.error) || !strings.Contains(a.ErrorDetail, c.detail) {
			t.Errorf("%s: %v %q %q", c.name, a.Outcome, a.Error, a.ErrorDetail)
		}
		if all := a.Error + a.ErrorDetail; strings.Contains(all, "CAN") || strings.Contains(a.Error, "127.0.0.1") || len(a.ErrorDetail) > maxDetail+4 {
			t.Errorf("%s: %d bytes: %q %q", c.name, len(a.ErrorDetail), a.Error, a.ErrorDetail)
		}
	}
	for _, status := range []int{http.StatusOK, http.StatusFound, http.StatusBadGateway} {
		w.d.deps.Doer = always(status)
		delivery := w.enqueue(w.endpoint(), "{}")
		w.round(w.d)
		if a := w.attempts(delivery)[0]; a.Status == nil || a.ErrorDetail != "" {
			t.Errorf("%d: %q", status, a.ErrorDetail)
		}
	}
	if n := w.count(`SELECT count(*) FROM attempts WHERE error_detail = ''`); n != 0 {
		t.Errorf("%d attempts keep an empty text", n)
	}
}
