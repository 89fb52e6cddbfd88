//go:build chaos

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// cuts cuts connections at each statement that comes, once in each way. It knows none of them: a statement that is new is cut
// because it comes.
type cuts struct {
	ways []how
	gap  time.Duration // before a statement is cut again, so that something gets through

	mu   sync.Mutex
	last time.Time
	left map[string][]how // by statement; none left: it is done with
	came map[string]int
	seen []string
}

func (c *cuts) whim(conn *wireConn, sql string) (how, bool) {
	name := nameOf(conn, sql)
	c.mu.Lock()
	defer c.mu.Unlock()
	left, known := c.left[name]
	if !known {
		first := len(c.seen) % len(c.ways) // with -short one way each, so that all ways come
		left = append(slices.Clone(c.ways[first:]), c.ways[:first]...)
		if testing.Short() {
			left = left[:1]
		}
		c.seen = append(c.seen, name)
	}
	c.left[name] = left
	c.came[name]++
	if len(left) == 0 || known && time.Since(c.last) < c.gap {
		return 0, false
	}
	c.last, c.left[name] = time.Now(), left[1:]
	return left[0], true
}

// open names the statements that have not been cut in all ways, though they came often enough. Some come once in the life of a
// process, or when something has gone wrong in one way alone: those are cut as often as they come.
func (c *cuts) open() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, left := range c.left {
		if len(left) > 0 && c.came[name] > 2*len(c.ways) {
			names = append(names, fmt.Sprintf("%d ways left: %s", len(left), name))
		}
	}
	slices.Sort(names)
	return names
}

// nameOf is the statement's own text, but for how often a batch repeats a part; the ends of transactions are told apart by
// what came before them.
func nameOf(c *wireConn, sql string) string {
	text := strings.Join(strings.Fields(sql), " ")
	switch lower := strings.ToLower(text); {
	case lower == "commit", lower == "rollback":
		return lower + " after: " + abridged(strings.Join(strings.Fields(c.last), " "))
	default:
		return abridged(text)
	}
}

func abridged(text string) string {
	const most = 200
	if len(text) > most {
		return text[:most/2] + " … " + text[len(text)-most/2:]
	}
	return text
}

// The connection is cut at each statement that Postrider sends, before it, within it, after it and within its answer: those
// of a start, of the work and of the API. Nothing is lost or made twice, and the process that works lives on. One that is
// just starting may give up, with a line; whoever started it starts it again.
func TestChaosConnectionsCut(t *testing.T) {
	t.Parallel()
	const inFlight = 64
	s := ownDatabase(t, "PostgreSQL: connections cut at each statement", settings{"DELIVERY_MAX_IN_FLIGHT": fmt.Sprint(inFlight)})
	w := newWire(t, s.database)
	c := &cuts{ways: []how{cutBefore, cutInside, cutAfter, cutReply}, gap: 15 * time.Millisecond, left: map[string][]how{}, came: map[string]int{}}
	armed := make(chan struct{})
	w.whim = func(conn *wireConn, sql string) (how, bool) {
		select {
		case <-armed:
			return c.whim(conn, sql)
		default:
			return 0, false
		}
	}
	s.env["DATABASE_URL"] = w.through(s.database)
	p := s.start(nil)
	s.settle(p)
	s.answers(func(n int, _ request) string {
		if n%10 == 9 {
			s.failed.Add(1)
			return answer(http.StatusInternalServerError)
		}
		return answer(http.StatusOK)
	})
	close(armed)
	s.produce(2, 1_000_000) // until everything was cut
	late := time.After(2 * siegePatience)
	for starts, done := 0, false; !done; starts++ {
		s.exercise(p)
		done = s.startAndStop()
		left := c.open()
		done = done && len(left) == 0
		select {
		case <-late:
			t.Errorf("not every statement was cut in every way:\n%s", strings.Join(left, "\n"))
			done = true
		default:
		}
		if done {
			t.Logf("%d statements were cut, with %d starts", len(c.seen), starts)
		}
	}
	s.answers(nil)
	s.quit()
	s.verdict(inFlight)
	p.alive()
}

// startAndStop starts a further process and stops it, and reports whether it came up.
func (s *siege) startAndStop() bool {
	p, err := tryStart(s.t, "api,dispatcher,scheduler", s.env)
	if err != nil {
		return false
	}
	p.stop()
	return true
}

// exercise has the API read and change things. What it cannot do for want of a connection is a 503, and nothing else.
func (s *siege) exercise(p *process) {
	s.t.Helper()
	tenant := "/v1/tenants/" + s.tenant
	call := func(method, path, body string) reply {
		got, err := p.try(method, path, "application/json", []byte(body))
		if err == nil && got.status >= http.StatusInternalServerError && got.status != http.StatusServiceUnavailable {
			s.t.Errorf("%s: %s %s: %d %s", s.fault, method, path, got.status, got.body)
		}
		return got
	}
	if got := call(http.MethodPost, tenant+"/endpoints", `{"url":"`+s.host.url("/none")+`","event_types":["none"]}`); got.status == http.StatusCreated {
		endpoint := tenant + "/endpoints/" + got.object(s.t).text("id")
		call(http.MethodGet, endpoint, "")
		call(http.MethodPatch, endpoint, `{"description":"changed"}`)
		call(http.MethodPost, endpoint+"/secret/rotate", `{}`)
		call(http.MethodGet, endpoint+"/secret", "")
		call(http.MethodDelete, endpoint, "")
	}
	for _, path := range []string{"/readyz", "/v1/tenants", tenant, tenant + "/endpoints", tenant + "/events", "/v1/deliveries?limit=1", "/v1/alerts", "/v1/api-keys"} {
		call(http.MethodGet, path, "")
	}
}
