package devreceiver_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/devreceiver"
	"github.com/postrider/postrider/signer"
)

// patience is for what would hang otherwise.
const patience = time.Minute

func TestTheFirstAttemptsOfEachDeliveryFail(t *testing.T) {
	t.Parallel()
	answer := devreceiver.FailFirst(2, devreceiver.Always(http.StatusOK))
	for _, step := range []struct {
		delivery, event string
		want            int
	}{
		{"dlv_1", "evt_1", 503},
		{"dlv_2", "evt_1", 503},
		{"dlv_1", "evt_1", 503},
		{"dlv_1", "evt_1", 200},
		{"dlv_2", "evt_1", 503},
		{"dlv_2", "evt_1", 200},
		{"dlv_1", "evt_1", 200},
		{"", "evt_9", 503},
		{"", "evt_9", 503},
		{"", "evt_9", 200},
	} {
		got := answer(t.Context(), devreceiver.Received{DeliveryID: step.delivery, EventID: step.event})
		if got.Status != step.want || (got.Note == "") != (step.want == 200) {
			t.Errorf("%s: %+v, want %d", step.delivery, got, step.want)
		}
	}
}

func TestWhatIsForgottenFailsAgain(t *testing.T) {
	t.Parallel()
	answer := devreceiver.FailFirst(1, devreceiver.Always(http.StatusOK))
	status := func(delivery string) int {
		return answer(t.Context(), devreceiver.Received{DeliveryID: delivery}).Status
	}
	if a, b := status("first"), status("first"); a != 503 || b != 200 {
		t.Fatalf("%d, then %d", a, b)
	}
	for i := range 10_000 {
		status(strconv.Itoa(i))
	}
	if got := status("first"); got != 503 {
		t.Errorf("the oldest is still known: %d", got)
	}
	if got := status("9999"); got != 200 {
		t.Errorf("the newest is not known: %d", got)
	}
}

func TestAnAnswerIsPutOffUntilNobodyWaits(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := devreceiver.After(time.Hour, devreceiver.Always(201))(ctx, devreceiver.Received{}); got.Status != 201 {
		t.Errorf("%+v", got)
	}
	if got := devreceiver.After(1, devreceiver.Always(201))(t.Context(), devreceiver.Received{}); got.Status != 201 {
		t.Errorf("%+v", got)
	}
}

func TestRepeatsAreCounted(t *testing.T) {
	t.Parallel()
	secret := newSecret(t, signer.Standard)
	s := newSubscriber(trusting(signer.Standard, secret))
	for range 2 {
		s.take(signed(t, signer.Standard, newSecret(t, signer.Standard), now, "{}")) // a stranger's does not count
		s.take(signed(t, signer.Standard, secret, now, "{}"))
	}
	if s.got[1].Before != 0 || s.got[3].Before != 1 || s.got[2].Before != 0 {
		t.Errorf("%+v", s.got)
	}
}

// forwarding is a receiver that passes on to an app.
func forwarding(t *testing.T, target string, patience time.Duration) (base string, got <-chan devreceiver.Received, secret signer.Secret) {
	t.Helper()
	secret = newSecret(t, signer.Standard)
	ch := make(chan devreceiver.Received, 10)
	r := devreceiver.New(devreceiver.Options{
		Trust: trusting(signer.Standard, secret), MaxBody: 1 << 20, Now: func() time.Time { return now },
		Answer: devreceiver.Forward(target, patience), Report: func(got devreceiver.Received) { ch <- got },
	})
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return server.URL, ch, secret
}

// send sends a signed request as it is made, and gives the answer.
func send(t *testing.T, base string, secret signer.Secret, body string, change func(*http.Request)) (status int, header http.Header, text string) {
	t.Helper()
	made := signed(t, signer.Standard, secret, now, body)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = made.Header
	if change != nil {
		change(req)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(raw)
}

func TestAnAppGetsTheRequestAsItCameAndItsAnswerGoesBack(t *testing.T) {
	t.Parallel()
	const body = "{ \"a\": \"<&>\",\r\n\"b\": 1E+2 }\n"
	type seen struct {
		header http.Header
		host   string
		body   string
		length int64
	}
	app := make(chan seen, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		app <- seen{r.Header, r.Host, string(raw), r.ContentLength}
		w.Header().Set("Retry-After", "7")
		w.Header().Set("Webhook-Delivery", "abort-message")
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusFound)
		_, _ = io.WriteString(w, "moved")
	}))
	t.Cleanup(server.Close)
	base, got, secret := forwarding(t, server.URL+"/hooks?a=b", patience)
	status, header, text := send(t, base, secret, body, func(r *http.Request) {
		r.Header.Set("X-Own", "x")
		r.Header.Set("User-Agent", "Postrider/test")
		r.Header.Set("Connection", "X-Hop")
		r.Header.Set("X-Hop", "x")
	})
	if status != http.StatusFound || text != "moved" || header.Get("Retry-After") != "7" || header.Get("Webhook-Delivery") != "abort-message" {
		t.Errorf("answered %d %v %q", status, header, text)
	}
	a := <-app
	if a.body != body || a.length != int64(len(body)) || a.host != strings.TrimPrefix(server.URL, "http://") || a.header.Get("X-Own") != "x" ||
		a.header.Get("User-Agent") != "Postrider/test" || a.header.Get("X-Hop") != "" || a.header.Get("Webhook-Signature") == "" {
		t.Errorf("the app got %+v", a)
	}
	if r := <-got; r.Err != nil || r.Answer.By != "app" || r.Answer.Status != http.StatusFound || r.Answer.Took <= 0 {
		t.Errorf("reported %+v", r)
	}
}

func TestAnAppThatGivesNoAnswerIsToldOf(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(slow.Close)
	t.Cleanup(func() { close(release) })
	broken := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(broken.Close)
	for name, c := range map[string]struct {
		target   string
		patience time.Duration
		status   int
		says     string
	}{
		"not running": {"http://" + l.Addr().String(), patience, http.StatusBadGateway, "refuses connections: is it running?"},
		"too slow":    {slow.URL, 50 * time.Millisecond, http.StatusGatewayTimeout, "did not answer within 50ms"},
		"broken off":  {broken.URL, patience, http.StatusBadGateway, "gave no whole answer: EOF"},
	} {
		base, got, secret := forwarding(t, c.target, c.patience)
		status, _, text := send(t, base, secret, "{}", nil)
		if r := <-got; status != c.status || !strings.Contains(text, c.says) || r.Answer.By != "" || !strings.Contains(r.Answer.Note, c.says) {
			t.Errorf("%s: %d %q, reported %+v", name, status, text, r.Answer)
		}
	}
}

func TestALongAnswerOfAnAppIsCut(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20+1))
	}))
	t.Cleanup(app.Close)
	base, got, secret := forwarding(t, app.URL, patience)
	status, _, text := send(t, base, secret, "", nil)
	if r := <-got; status != http.StatusOK || len(text) != 1<<20 || !strings.Contains(r.Answer.Note, "cut at") {
		t.Errorf("%d, %d bytes, %q", status, len(text), r.Answer.Note)
	}
}

// What does not verify is no app's business.
func TestAnAppIsNotBotheredWithWhatDoesNotVerify(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	t.Cleanup(app.Close)
	base, got, _ := forwarding(t, app.URL, patience)
	status, _, _ := send(t, base, newSecret(t, signer.Standard), "{}", nil)
	if r := <-got; status != http.StatusBadRequest || r.Err == nil || r.Answer.Status != status || len(asked) != 0 {
		t.Errorf("%d, %+v", status, r)
	}
}

func TestWhatLeadsBackHereIsNotPassedOnForEver(t *testing.T) {
	t.Parallel()
	var there http.Handler
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { there.ServeHTTP(w, r) }))
	t.Cleanup(app.Close)
	base, got, secret := forwarding(t, app.URL, patience)
	there = devreceiver.New(devreceiver.Options{ // passes on to the one that passes on to it
		Trust: trusting(signer.Standard, secret), MaxBody: 1 << 20, Now: func() time.Time { return now },
		Answer: devreceiver.Forward(base, patience), Report: func(devreceiver.Received) {},
	})
	for range 2 { // it is no loop that the same comes once more
		status, _, text := send(t, base, secret, "{}", nil)
		if status != http.StatusLoopDetected || !strings.Contains(text, "leads back here") {
			t.Errorf("it answered %d: %s", status, text)
		}
		if inner, outer := <-got, <-got; inner.Answer.By != "" || outer.Answer.By != "app" || len(got) != 0 {
			t.Errorf("it reported %+v, then %+v and %d more", inner.Answer, outer.Answer, len(got))
		}
	}
}
