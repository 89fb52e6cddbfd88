//go:build chaos

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/egresstest"
)

const (
	allowed = 3 * time.Second // an attempt
	pace    = 150 * time.Millisecond
	grace   = time.Second // beyond that, on top of how late the machine is
	spare   = 96 << 10    // kilobytes over those of an idle process; what floods in one round is ten times as much
	flat    = 48 << 10    // kilobytes that all further rounds of floods may take more than the first
)

// stand is a mischief at work, with the endpoint that leads to it.
type stand struct {
	mischief
	r      *rogue // nil if it is none
	kind   string // the event type that only it gets
	event  string // its latest
	events int
	tried  int // attempts at all of them
}

// carriers is how many goroutines a dispatcher keeps for the next deliveries.
var carriers = 64 * runtime.NumCPU()

// TestChaosReceivers sends deliveries to receivers of every hostile kind, all at once, with a good one among them. Each has
// to come to its verdict within the time of an attempt, with one recorded attempt for each request on the wire and all that
// the receiver said kept as it was; the good one has to be served as if it were alone; and nothing may pile up in the process.
// FC-020, FC-023, FC-025, FC-026 and FC-034 (no log line holds the URL's token) are among them.
//
// It is not parallel: it holds times against the clock, and has the machine to itself.
func TestChaosReceivers(t *testing.T) { //nolint:paralleltest // see above
	ca := newAuthority(t)
	p := serve(t, settings{
		"SSL_CERT_FILE": ca.file, "DELIVERY_RETRY_SCHEDULE": "300ms", "DELIVERY_TIMEOUT": allowed.String(),
		"DELIVERY_CONNECT_TIMEOUT": "2s", "DELIVERY_LEASE": (2 * allowed).String(),
		"EVENTS_MAX_PAYLOAD": "8MiB", "DELIVERY_RESPONSE_BODY_LIMIT": fmt.Sprint(kept),
	})
	late := lagMeter(t)
	tenant := p.tenant()
	good := p.regular(tenant)
	good.stream(200, time.Millisecond)
	good.check()
	before := p.resources()
	p.forgetPeak()

	all := p.stands(tenant, ca)
	end := good.keepOn()
	floods := slices.DeleteFunc(slices.Clone(all), func(s *stand) bool { return !s.flood })
	big := slices.DeleteFunc(slices.Clone(all), func(s *stand) bool { return !s.big })
	stages := [][]*stand{slices.DeleteFunc(slices.Clone(all), func(s *stand) bool { return s.big })}
	for range load(8) - 1 { // one is enough with -short
		stages = append(stages, floods)
	}
	round := func(some []*stand, crowd int) {
		p.approach(tenant, some, crowd)
		for _, s := range some {
			t.Run(s.title(), func(t *testing.T) { p.judge(t, s, late) })
		}
	}
	peak := 0 // of the first round
	for _, some := range stages {
		round(some, 25)
		if peak == 0 {
			peak = p.resources().peak
		}
	}
	after := p.resources()
	if after.peak > before.kilobytes+spare || after.peak > peak+flat {
		t.Errorf("the process took %d kB more than when it was idle, %d of them not in the first round", after.peak-before.kilobytes, after.peak-peak)
	}
	round(big, 4) // whose payloads are in memory, of course
	end()
	good.check()
	for _, s := range all {
		if s.r != nil {
			s.r.close()
		}
	}
	eventually(t, func() string {
		good.stream(20, time.Millisecond) // carriers that are too many end when they have carried something
		if now := p.resources(); now.files > before.files+24 || now.goroutines > before.goroutines+carriers+24 {
			return fmt.Sprintf("before %+v, after %+v", before, now)
		}
		return ""
	})
	p.onlyJSON(t)
	events := good.count()
	for _, s := range all {
		events += s.events
	}
	t.Logf("%d kinds, %d events; machine late by %v at most; before %+v, after %+v, in the end %+v",
		len(all), events, late(), before, after, p.resources())
}

func (s *stand) title() string {
	scheme := ""
	switch {
	case s.where == overHTTP2:
		scheme = ", HTTP/2"
	case s.r != nil && s.r.tls != nil:
		scheme = ", TLS"
	}
	return s.name + scheme
}

// stands opens all receivers, over TCP, TLS and HTTP/2, and makes their endpoints.
func (p *process) stands(tenant string, ca *authority) []*stand {
	p.t.Helper()
	plain := slices.Concat(silences(), endless(), departures(), statusLines(), statuses(), heads(), handshakes(),
		h2silences(), h2floods(), h2departures(), h2nonsense())
	one, two := ca.server(p.t, "http/1.1"), ca.server(p.t, "h2")
	var all []*stand
	open := func(m mischief, r *rogue) {
		s := &stand{mischief: m, r: r, kind: fmt.Sprint("kind-", len(all))}
		if r != nil {
			r.unread, r.bare, r.play = m.unread, m.bare, m.play
			r.serve(p.t)
			s.url = r.url()
		}
		p.endpoint(tenant, s.url, object{"event_types": []string{s.kind}})
		all = append(all, s)
	}
	for _, m := range plain {
		if m.where == anywhere || m.where == plainOnly {
			open(m, &rogue{})
		}
		if m.where == anywhere || m.where == tlsOnly {
			if m.overTLS != "" {
				m.outcome = m.overTLS
			}
			open(m, &rogue{tls: one})
		}
		if m.where == overHTTP2 {
			open(m, &rogue{tls: two})
		}
	}
	shut := receive(p.t, nil)
	_ = shut.l.Close()
	open(mischief{name: "is not there", url: shut.url("/hook?token=CANARY"), outcome: "connect_error", says: "refused"}, nil)
	open(mischief{name: "accepts nothing", url: "http://" + egresstest.Deaf(p.t) + "/", outcome: "timeout", says: "no connection was made in time"}, nil)
	return all
}

// approach sends an event to each, some at a time: TLS with all of them at once would take a machine longer than they have.
func (p *process) approach(tenant string, some []*stand, crowd int) {
	p.t.Helper()
	big := bytes.Repeat([]byte("x"), 5<<20)
	for together := range slices.Chunk(some, crowd) {
		var events []object
		var small []*stand
		for _, s := range together {
			if s.events++; !s.big {
				events, small = append(events, object{"type": s.kind, "payload": object{"a": 1}}), append(small, s)
				continue
			}
			r := p.do(http.MethodPost, "/v1/tenants/"+tenant+"/events/"+s.kind, "text/plain", big)
			s.event = r.object(p.t).text("id")
		}
		if len(small) > 0 {
			got := p.want(http.StatusAccepted, http.MethodPost, "/v1/tenants/"+tenant+"/events:batch", object{"events": events}).list("data")
			for i, s := range small {
				s.event = got[i].text("id")
			}
		}
		<-time.After(pace)
	}
}
