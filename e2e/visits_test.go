package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// visit is one request at a host: when it came, when it was answered, and how many were there with it.
type visit struct {
	path    string // of the URL: tells endpoints apart
	name    string // the event's payload, a JSON string: tells events apart
	id      string // of the event
	attempt int
	nth     int // of its path, from 1
	begun   time.Time
	ended   time.Time // zero: not answered yet
	status  int       // of the answer; 0: the connection was closed without one
	beside  int       // how many were on its path when it began, itself included
	before  int       // how many had been answered on its path when it began
}

// verdict is a host's answer.
type verdict struct {
	status  int // 0: closes the connection without a word
	headers []string
}

func says(status int, headers ...string) verdict { return verdict{status, headers} }

// host is a receiver that keeps a book of its visits. A visit ends before its answer is written, so what a sender does
// because of the answer begins after it: two visits that overlap in the book did so on the wire.
type host struct {
	*receiver

	mu       sync.Mutex
	all      []*visit
	there    map[string]int
	answered map[string]int
}

// entertain starts a host. play may wait, for moments or on a channel.
func entertain(t *testing.T, play func(visit) verdict) *host {
	t.Helper()
	h := &host{there: map[string]int{}, answered: map[string]int{}}
	ready := make(chan struct{})
	h.receiver = receive(t, func(_ int, r request) string {
		<-ready
		v := h.begin(r)
		got := play(*v)
		h.finish(v, got.status)
		if got.status == 0 {
			return ""
		}
		return answer(got.status, got.headers...)
	})
	close(ready)
	return h
}

func (h *host) begin(r request) *visit {
	_, rest, _ := strings.Cut(r.line, " ")
	path, _, _ := strings.Cut(rest, " ")
	attempt, _ := strconv.Atoi(r.get("postrider-attempt"))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.there[path]++
	v := &visit{
		path: path, name: strings.Trim(string(r.body), `"`), id: r.get("webhook-id"), attempt: attempt, begun: time.Now(),
		beside: h.there[path], before: h.answered[path], nth: h.there[path] + h.answered[path],
	}
	h.all = append(h.all, v)
	return v
}

func (h *host) finish(v *visit, status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v.ended, v.status = time.Now(), status
	h.there[v.path]--
	h.answered[v.path]++
}

// visits gives those on a path so far, in the order in which they began.
func (h *host) visits(path string) []visit {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []visit
	for _, v := range h.all {
		if v.path == path {
			out = append(out, *v)
		}
	}
	return out
}

// came counts the visits on a path.
func (h *host) came(path string) int { return len(h.visits(path)) }

// served counts the events that were answered with a 2xx on a path.
func (h *host) served(path string) int {
	events := map[string]bool{}
	for _, v := range h.visits(path) {
		if v.status/100 == 2 {
			events[v.id] = true
		}
	}
	return len(events)
}

// awaitServed waits until so many events were answered with a 2xx on a path.
func (h *host) awaitServed(t *testing.T, path string, n int) {
	t.Helper()
	eventually(t, func() string {
		if got := h.served(path); got < n {
			return fmt.Sprintf("%s: %d of %d events were delivered in %d requests", path, got, n, h.came(path))
		}
		return ""
	})
}

// awaitVisits waits until so many requests have come on a path.
func (h *host) awaitVisits(t *testing.T, path string, n int) {
	t.Helper()
	eventually(t, func() string {
		if got := h.came(path); got < n {
			return fmt.Sprintf("%s: %d of %d requests have come", path, got, n)
		}
		return ""
	})
}

// once checks that no event was sent twice on a path.
func (h *host) once(t *testing.T, path string) {
	t.Helper()
	seen := map[string]bool{}
	for _, v := range h.visits(path) {
		if seen[v.id] {
			t.Errorf("%s: event %s (%s) came twice", path, v.id, v.name)
		}
		seen[v.id] = true
	}
}

// first gives the first visit on a path of the event with that payload; it is an error if there was none.
func (h *host) first(t *testing.T, path, name string) visit {
	t.Helper()
	all := h.visits(path)
	i := slices.IndexFunc(all, func(v visit) bool { return v.name == name })
	if i < 0 {
		t.Fatalf("%s: %q did not come", path, name)
	}
	return all[i]
}

// gate is a switch that tests turn once: closed at first.
type gate struct {
	once sync.Once
	c    chan struct{}
}

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{c: make(chan struct{})}
	t.Cleanup(g.open)
	return g
}

func (g *gate) open() { g.once.Do(func() { close(g.c) }) }

func (g *gate) wait() { <-g.c }

func (g *gate) isOpen() bool {
	select {
	case <-g.c:
		return true
	default:
		return false
	}
}

// on makes an endpoint of a host that gets the events whose type is its path without the slash.
func (p *process) on(tenant string, h *host, path string, more object) (endpoint string) {
	p.t.Helper()
	body := object{"event_types": []string{strings.TrimPrefix(path, "/")}}
	for k, v := range more {
		body[k] = v
	}
	return "/v1/tenants/" + tenant + "/endpoints/" + p.endpoint(tenant, h.url(path), body).text("id")
}

// many makes n events with payloads "<kind> 0", "<kind> 1", …
func many(kind string, n int) []object {
	out := make([]object, n)
	for i := range out {
		out[i] = object{"type": kind, "payload": fmt.Sprint(kind, " ", i)}
	}
	return out
}

// batch enqueues events in one transaction for each 1,000.
func (p *process) batch(tenant string, events []object) {
	p.t.Helper()
	for some := range slices.Chunk(events, 1000) {
		p.want(http.StatusAccepted, http.MethodPost, "/v1/tenants/"+tenant+"/events:batch", object{"events": some})
	}
}

// attempted counts the attempts that this process has made.
func (p *process) attempted() (n int) {
	p.t.Helper()
	for line := range strings.Lines(string(p.do(http.MethodGet, "/metrics", "", nil).body)) {
		if strings.HasPrefix(line, "postrider_attempts_total{") {
			count, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndex(line, " "):]))
			if err != nil {
				p.t.Fatal(line, err)
			}
			n += count
		}
	}
	return n
}

// stamp reads a time of an answer; zero if it is null.
func (o object) stamp(t *testing.T, key string) time.Time {
	t.Helper()
	text := o.text(key)
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
