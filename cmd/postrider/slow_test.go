package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/subscriptions"
)

// hasty are the limits of the real server with less time.
var hasty = serverLimits{
	header: 300 * time.Millisecond, read: 20 * time.Second, write: 30 * time.Second, idle: 300 * time.Millisecond,
	headerBytes: usualLimits.headerBytes,
}

// serveHandler serves on a socket until the test ends, and gives its address.
func serveHandler(t *testing.T, lim serverLimits, h http.Handler) (addr string, s *server) {
	t.Helper()
	l, err := listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = lim.server(l, h, zerolog.Nop())
	done := make(chan error, 1)
	go func() { done <- s.http.Serve(s.listener) }()
	t.Cleanup(func() {
		_ = s.http.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String(), s
}

// serveAPI serves the API itself, with a tenant acme.
func serveAPI(t *testing.T, lim serverLimits) (addr string) {
	t.Helper()
	db, clock := pgtest.Pool(t), &pg.Clock{}
	ids := id.NewGenerator(1, clock.Now)
	keys := auth.NewKeys(db, ids, clock.Now)
	if err := keys.EnsureBootstrap(t.Context(), adminKey); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := keys.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	store := subscriptions.New(subscriptions.Deps{DB: db, IDs: ids, Now: clock.Now, CheckURL: func(string) error { return nil }})
	if _, err := store.CreateTenant(t.Context(), subscriptions.NewTenant{UID: new("acme"), Name: "Acme"}); err != nil {
		t.Fatal(err)
	}
	addr, _ = serveHandler(t, lim, api.New(api.Deps{
		Subscriptions: store, Keys: keys, Audit: audit.NewLog(db), Alerts: alert.NewDesk(db, ids.Next, clock.Now),
		Intake:     intake.New(intake.Deps{DB: db, IDs: ids, Now: clock.Now, MaxPayload: 1 << 20}),
		Deliveries: dispatcher.NewDesk(dispatcher.DeskDeps{DB: db, IDs: ids, Now: clock.Now, Wake: func(int16) {}}),
		Ping:       db.Ping, Logger: zerolog.Nop(), MaxPayload: 1 << 20, Version: "test",
		Bodies: api.BodyPace{Grace: 300 * time.Millisecond, Total: 10 * time.Second, Leftover: 200 * time.Millisecond},
	}))
	return addr
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// statuses reads answers until the server closes the connection, and gives their statuses. A connection that stays open
// fails the test when its patience is over.
func statuses(t *testing.T, c net.Conn) (all []int) {
	t.Helper()
	r := bufio.NewReader(c)
	for {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Error("the server keeps the connection")
			}
			return all
		}
		all = append(all, res.StatusCode)
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Errorf("half an answer: %v", err)
		}
		_ = res.Body.Close()
	}
}

// trickle sends a byte again and again until the server has had enough.
func trickle(t *testing.T, c net.Conn, piece string) {
	t.Helper()
	for range 1000 {
		if _, err := io.WriteString(c, piece); err != nil {
			return
		}
		pause(t, 20*time.Millisecond)
	}
}

// pause is how slow a client is.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}

const known = "Host: x\r\nAuthorization: Bearer " + adminKey + "\r\n"

// Whatever a client does with its connection, it is answered or cut off, and the connection ends.
func TestClientsThatKeepTheServerWaiting(t *testing.T) {
	t.Parallel()
	addr := serveAPI(t, hasty)
	post := func(path, headers string) string { return "POST " + path + " HTTP/1.1\r\n" + headers + "\r\n" }
	announced := "Content-Type: application/json\r\nContent-Length: 1000\r\n"
	chunked := "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
	for name, test := range map[string]struct {
		send, then string // then comes again and again
		want       []int
	}{
		"says nothing":                            {"", "", nil},
		"half a request line":                     {"GET /li", "", []int{400}},
		"no end of headers":                       {"GET /livez HTTP/1.1\r\nHost: x\r\n", "", nil},
		"headers byte by byte":                    {"GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: ", "x", nil},
		"headers line by line":                    {"GET /livez HTTP/1.1\r\nHost: x\r\n", "X: y\r\n", nil},
		"an empty line again and again":           {"", "\r\n", []int{400}},
		"garbage":                                 {"\x00\x01\x02\r\n\r\n", "", []int{400}},
		"a TLS handshake":                         {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "", []int{400}},
		"a long request line":                     {"GET /" + strings.Repeat("x", 100<<10) + " HTTP/1.1\r\n", "", []int{431}},
		"a long header":                           {"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n", "", []int{431}},
		"many headers":                            {"GET /livez HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X: y\r\n", 20_000), "", []int{431}},
		"a request, then silence":                 {"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", "", []int{200}},
		"a request, then garbage":                 {"GET /livez HTTP/1.1\r\nHost: x\r\n\r\nnonsense\r\n\r\n", "", []int{200, 400}},
		"many requests, then half a one":          {strings.Repeat("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", 3) + "GET", "", []int{200, 200, 200}},
		"two lengths":                             {post("/v1/tenants", known+"Content-Length: 1\r\nContent-Length: 2\r\n"), "", []int{400}},
		"no such length":                          {post("/v1/tenants", known+"Content-Length: -1\r\n"), "", []int{400}},
		"a body without a key":                    {post("/v1/tenants", "Host: x\r\n"+announced) + "{", "", []int{401}},
		"a body without a key, byte by byte":      {post("/v1/tenants", "Host: x\r\n"+announced) + "{", " ", []int{401}},
		"chunks without a key":                    {post("/v1/tenants/acme/events", "Host: x\r\n"+chunked), "1\r\n \r\n", []int{401}},
		"a body that nothing reads":               {"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", "x", []int{200}},
		"a body for nothing":                      {post("/nowhere", "Host: x\r\n"+announced) + "{", "", []int{404}},
		"a body by the wrong method":              {"PUT /v1/tenants HTTP/1.1\r\n" + known + announced + "\r\n{", "", []int{405}},
		"half a body":                             {post("/v1/tenants", known+announced) + "{", "", []int{408}},
		"half an event":                           {post("/v1/tenants/acme/events", known+announced) + "{", "", []int{408}},
		"half a raw event":                        {post("/v1/tenants/acme/events/a", known+"Content-Type: text/plain\r\nContent-Length: 1000\r\n") + "{", "", []int{408}},
		"a body byte by byte":                     {post("/v1/tenants", known+announced) + "{", " ", []int{408}},
		"an event byte by byte":                   {post("/v1/tenants/acme/events", known+announced) + "{", " ", []int{408}},
		"chunks byte by byte":                     {post("/v1/tenants/acme/events", known+chunked), "1\r\n \r\n", []int{408}},
		"chunk extensions without end":            {post("/v1/tenants/acme/events", known+chunked) + "1;", "x", []int{408}},
		"a body that is too long to be read":      {post("/v1/tenants", known+"Content-Type: application/json\r\nContent-Length: 99999999\r\n") + "{", "", []int{413}},
		"an upgrade that is not to be had":        {"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", "", []int{200}},
		"HTTP/2 without saying so":                {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", []int{404}},
		"a promise of a body that is not awaited": {post("/v1/tenants", "Host: x\r\nExpect: 100-continue\r\n"+announced), "", []int{401}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, addr)
			go func() {
				if _, err := io.WriteString(c, test.send); err == nil && test.then != "" {
					trickle(t, c, test.then)
				}
			}()
			if got := statuses(t, c); fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("answers %v, want %v", got, test.want)
			}
		})
	}
}

// A body that comes at a fair pace has more time than one that trickles.
func TestABodyThatComesSteadilyHasItsTime(t *testing.T) {
	t.Parallel()
	addr := serveAPI(t, hasty)
	c := dial(t, addr)
	const pieces, size = 8, 16 << 10 // at the least rate this is 8 seconds' worth
	head := fmt.Sprintf("POST /v1/tenants/acme/events/a HTTP/1.1\r\n%sConnection: close\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", known, pieces*size)
	if _, err := io.WriteString(c, head); err != nil {
		t.Fatal(err)
	}
	for range pieces {
		if _, err := io.WriteString(c, strings.Repeat("x", size)); err != nil {
			t.Fatal(err)
		}
		pause(t, 60*time.Millisecond) // together longer than the grace
	}
	if got := statuses(t, c); fmt.Sprint(got) != "[202]" {
		t.Errorf("answers %v", got)
	}
}

// Who does not take his answer is cut off.
func TestAnAnswerThatIsNotTaken(t *testing.T) {
	t.Parallel()
	lim := hasty
	lim.write = 500 * time.Millisecond
	ended := make(chan error, 1)
	addr, _ := serveHandler(t, lim, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				ended <- err
				return
			}
		}
	}))
	c := dial(t, addr)
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("it ended by %v", err)
		}
	case <-time.After(patience):
		t.Error("it is written to without end")
	}
}

// Neither does one who asks and asks, without a key, keep a connection for as long as the largest answer may take.
func TestAnswersThatAreNotTaken(t *testing.T) {
	t.Parallel()
	lim := hasty
	lim.write = 10 * patience
	c := dial(t, serveAPI(t, lim))
	asking := strings.Repeat("GET /v1/tenants HTTP/1.1\r\nHost: x\r\n\r\n", 1000)
	for {
		_, err := io.WriteString(c, asking)
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			t.Fatal("the server keeps the connection")
		case err != nil:
			return
		}
	}
}
