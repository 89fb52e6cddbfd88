// Package watch looks whether deliveries are made, which no health check of a single process can tell: it counts the processes that
// live and work, looks for deliveries that could be sent and are not, and sends an event of its own the whole way again and again
// (the canary). What it finds becomes an alert about the service (internal/alert).
//
// Every process watches, whatever its roles, so that one that dies takes no watcher with it that mattered; what many find at once is
// one alert. Evaluate and the patience around it are pure; a Watch reads the facts and writes what came of them. The package sends
// no notice, restarts nobody and changes no delivery but its own.
package watch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/duration"
)

// Bounds are what an operator may turn.
type Bounds struct {
	MaxDueAge      time.Duration // of what could be sent; 0: it does not matter
	MinDispatchers int
	DeadAfter      time.Duration // a process that has not been heard of for so long is dead, and a loop that has not gone round is
	CanaryEvery    time.Duration // 0: there is none
}

// CanaryMisses is how many canaries have to stay out, one after the other, until it is worth an alert.
const CanaryMisses = 3

// Facts are what a look finds.
type Facts struct {
	LateSince    *time.Time // when what is late longest could have been sent; nil: nothing is late
	LateEndpoint string     // its endpoint
	Processes    []Process
	// Unknown is how many processes of an older version there are beside: nobody knows their roles, and whether they work.
	Unknown int
	Canary  Canary
}

// Canary is where the canary stands.
type Canary struct {
	Since     time.Time // when one has come the whole way last; before the first, when it was sent. Zero: none has been sent
	Problem   string    // where the last one is stuck; "": it is on its way
	Succeeded time.Time // when one has come the whole way last; zero: none has
}

// Evaluate says what is wrong.
func Evaluate(f Facts, b Bounds, now time.Time) []alert.ServiceFinding {
	var out []alert.ServiceFinding
	add := func(kind alert.Kind, format string, args ...any) {
		out = append(out, alert.ServiceFinding{Kind: kind, Detail: fmt.Sprintf(format, args...)})
	}
	if b.MaxDueAge > 0 && f.LateSince != nil && now.Sub(*f.LateSince) > b.MaxDueAge {
		add(alert.ServiceDeliveriesLate, "A delivery to %s could have been sent for %s and is not; watch.max_due_age is %s.",
			f.LateEndpoint, duration.Round(now.Sub(*f.LateSince)), duration.Format(b.MaxDueAge))
	}
	if b.CanaryEvery > 0 && !f.Canary.Since.IsZero() && now.Sub(f.Canary.Since) > CanaryMisses*b.CanaryEvery {
		why := f.Canary.Problem
		if why == "" {
			why = "none has been sent since: no process with the role api sends them"
		}
		add(alert.ServiceCanaryFailed, "No canary has come through for %s: %s.", duration.Round(now.Sub(f.Canary.Since)), strings.TrimSuffix(why, "."))
	}
	if f.Unknown > 0 { // one of them may be what is missing
		return out
	}
	for _, r := range []struct {
		role string
		kind alert.Kind
		min  int
	}{{Scheduler, alert.ServiceNoScheduler, 1}, {Dispatcher, alert.ServiceNoDispatcher, b.MinDispatchers}} {
		if working := count(f.Processes, r.role, b, now); working < r.min {
			add(r.kind, "%s%s.", missing(r.role, working, r.min), ailing(f.Processes, r.role, b, now))
		}
	}
	return out
}

func count(all []Process, role string, b Bounds, now time.Time) (n int) {
	for _, p := range all {
		if p.Has(role) && p.State(role, b.DeadAfter, now) == Working {
			n++
		}
	}
	return n
}

func missing(role string, working, least int) string {
	if working == 0 {
		return fmt.Sprintf("No process with the role %s is at work", role)
	}
	return fmt.Sprintf("%d with the role %s are at work, fewer than %d", working, role, least)
}

// ailing says which processes there are that should do it and do not: those that died lately, and those that hang.
func ailing(all []Process, role string, b Bounds, now time.Time) string {
	var words []string
	for _, p := range all {
		if !p.Has(role) {
			continue
		}
		switch p.State(role, b.DeadAfter, now) {
		case Working:
		case Stuck:
			words = append(words, fmt.Sprintf("process %d on %s does not get on", p.PID, p.Host))
		case Dead:
			words = append(words, fmt.Sprintf("process %d on %s was last heard of %s ago", p.PID, p.Host, duration.Round(now.Sub(p.SeenAt))))
		}
	}
	slices.Sort(words)
	const most = 5
	if len(words) > most {
		words = append(words[:most], fmt.Sprintf("and %d more", len(words)-most))
	}
	if len(words) == 0 {
		return ""
	}
	return ": " + strings.Join(words, "; ")
}
