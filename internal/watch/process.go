package watch

import (
	"context"
	"slices"
	"time"

	"github.com/postrider/postrider/internal/pg"
)

// The roles of a process.
const (
	API        = "api"
	Dispatcher = "dispatcher"
	Scheduler  = "scheduler"
)

// Roles gives all of them.
func Roles() []string { return []string{API, Dispatcher, Scheduler} }

// State is how a process is, or one of its roles.
type State string

// The states, from good to bad.
const (
	Working State = "working"
	Stuck   State = "stuck" // the process lives, and what the role is for does not go round
	Dead    State = "dead"  // nothing was heard of it for too long
)

// Process is one process that has said what it is.
type Process pg.Process

// Has says whether the process has a role.
func (p Process) Has(role string) bool { return slices.Contains(p.Roles, role) }

// State says how a role of the process is.
func (p Process) State(role string, deadAfter time.Duration, now time.Time) State {
	if now.Sub(p.SeenAt) > deadAfter {
		return Dead
	}
	worked := &p.SeenAt
	switch role {
	case Dispatcher:
		worked = p.DispatcherWorkedAt
	case Scheduler:
		worked = p.SchedulerWorkedAt
	}
	if worked == nil || now.Sub(*worked) > deadAfter {
		return Stuck
	}
	return Working
}

// Overall is the worst of its roles.
func (p Process) Overall(deadAfter time.Duration, now time.Time) State {
	worst := Working
	for _, role := range p.Roles {
		switch p.State(role, deadAfter, now) {
		case Dead:
			return Dead
		case Stuck:
			worst = Stuck
		case Working:
		}
	}
	return worst
}

// Fleet is all processes at a moment.
type Fleet struct {
	Processes []Process
	Unknown   int // of an older version, which do not say what they are
	DeadAfter time.Duration
	At        time.Time
}

// Working counts the processes that do what a role is for.
func (f Fleet) Working(role string) int {
	return count(f.Processes, role, Bounds{DeadAfter: f.DeadAfter}, f.At)
}

// Fleet reads which processes there are. One that died stays for some minutes, until its number's lease ends.
func (w *Watch) Fleet(ctx context.Context) (Fleet, error) {
	f := Fleet{DeadAfter: w.deps.Bounds.DeadAfter, At: w.deps.Now()}
	all, unknown, err := pg.Processes(ctx, w.deps.DB, f.At)
	if err != nil {
		return Fleet{}, err //nolint:wrapcheck // says what it did
	}
	for _, p := range all {
		f.Processes = append(f.Processes, Process(p))
	}
	f.Unknown = unknown
	return f, nil
}
