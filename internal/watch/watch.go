package watch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pulse"
)

// Metrics hears of what a look has found.
type Metrics interface {
	SetProcesses(role string, n int)
	CanaryCame(took time.Duration)
	SetCanarySucceeded(at time.Time)
}

// Loop is for how long a loop has stood still.
type Loop = pulse.Still

// Deps is what a Watch works with.
type Deps struct {
	DB      *pgxpool.Pool
	Now     func() time.Time // the database's clock
	Log     zerolog.Logger
	Bounds  Bounds
	Self    pg.About // what this process is, but for what its loops do
	Node    *pg.Node // its node number; nil: it says nothing
	Alerts  *alert.Desk
	Desk    *dispatcher.Desk
	Metrics Metrics
	// Loops say for how long what the roles of this process are for has stood still.
	Loops map[string]func() Loop
}

// Watch watches. Make it with New; Say and Run are for as long as the process lives.
type Watch struct {
	deps  Deps
	every time.Duration
	said  atomic.Int64 // when Say got through last; Unix nanoseconds
	turns patience     // Run's alone
	begun time.Time    // likewise

	mu     sync.Mutex
	canary knownCanary
}

const (
	// usualEvery is how often a process says that it lives, and looks; a shorter DeadAfter has it do so more often.
	usualEvery = 10 * time.Second
	// hangs is how many times DeadAfter a loop has to hang until the process says that it is better restarted.
	hangs = 10
)

// New makes a Watch. It starts nothing.
func New(d Deps) *Watch {
	w := &Watch{deps: d, every: min(usualEvery, d.Bounds.DeadAfter/4)}
	w.turns = patience{every: w.every, settle: 2 * d.Bounds.DeadAfter}
	return w
}

// Say says again and again that this process lives, and what its loops do, until ctx ends.
func (w *Watch) Say(ctx context.Context) error {
	pulse.Again(ctx, w.every, w.sayOnce, func(err error) { w.deps.Log.Warn().Err(err).Msg("process.unsaid") })
	return nil
}

func (w *Watch) sayOnce(ctx context.Context) error {
	about, now := w.deps.Self, w.deps.Now()
	about.DispatcherWorkedAt, about.SchedulerWorkedAt = w.workedAt(Dispatcher, now), w.workedAt(Scheduler, now)
	err := w.deps.Node.Say(ctx, about)
	if err == nil {
		w.said.Store(time.Now().UnixNano())
	}
	return err //nolint:wrapcheck // says what it did
}

func (w *Watch) workedAt(role string, now time.Time) *time.Time {
	still, ok := w.deps.Loops[role]
	if !ok {
		return nil
	}
	at := now.Add(-still().Worked)
	return &at
}

// Run looks again and again, until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	pulse.Again(ctx, w.every, w.Look, func(err error) { w.deps.Log.Warn().Err(err).Msg("watch.failed") })
	return nil
}

// lookPatience bounds a look.
const lookPatience = 30 * time.Second

// Look looks once, and has alerts raised and resolved. What cannot be found out because the database does not answer is no finding: then
// nothing is delivered, and nobody can write down that it is not. /readyz says that.
func (w *Watch) Look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	facts, err := w.facts(ctx)
	if err != nil {
		return err
	}
	v := w.turns.look(Evaluate(facts, w.deps.Bounds, w.deps.Now()), w.deps.Now())
	if err := w.deps.Alerts.RaiseService(ctx, v.raise, w.every); err != nil {
		return err //nolint:wrapcheck // says what it did
	}
	_, err = w.deps.Alerts.CalmService(ctx, v.calm, looksToCalm*w.every)
	return err //nolint:wrapcheck // says what it did
}

func (w *Watch) facts(ctx context.Context) (Facts, error) {
	fleet, err := w.Fleet(ctx)
	if err != nil {
		return Facts{}, err
	}
	for _, role := range Roles() {
		w.deps.Metrics.SetProcesses(role, fleet.Working(role))
	}
	f := Facts{Processes: fleet.Processes, Unknown: fleet.Unknown}
	if bound := w.deps.Bounds.MaxDueAge; bound > 0 {
		late, err := w.deps.Desk.LateSince(ctx, fleet.At.Add(-bound))
		if err != nil {
			return f, err //nolint:wrapcheck // says what it did
		}
		if late != nil {
			f.LateSince, f.LateEndpoint = &late.Since, id.Endpoint.Format(late.Endpoint)
		}
	}
	if w.deps.Bounds.CanaryEvery > 0 {
		f.Canary, err = w.canaryFacts(ctx, fleet.At)
	}
	return f, err
}

func (w *Watch) canaryFacts(ctx context.Context, now time.Time) (Canary, error) {
	row, err := w.readCanary(ctx)
	if err != nil {
		return Canary{}, err
	}
	if w.begun.IsZero() {
		w.begun = now
	}
	c := row.canary()
	if c.Since.IsZero() {
		c.Since = w.begun
	}
	if !c.Succeeded.IsZero() {
		w.deps.Metrics.SetCanarySucceeded(c.Succeeded)
	}
	return c, nil
}

// Standing names the part of this process that has not got on for DeadAfter; "": all do. A process with such a part is not ready.
func (w *Watch) Standing() string {
	return w.standing(func(s Loop) bool { return s.Worked > w.deps.Bounds.DeadAfter })
}

// Hanging names the part of this process that hangs for its own fault, for so long that only a restart will help; "": none does. A
// loop that goes round without success does not hang, and while the database does not answer nobody can tell whose fault it is.
func (w *Watch) Hanging() string {
	if time.Since(time.Unix(0, w.said.Load())) > w.deps.Bounds.DeadAfter {
		return ""
	}
	return w.standing(func(s Loop) bool { return s.Turned > hangs*w.deps.Bounds.DeadAfter })
}

func (w *Watch) standing(tooLong func(Loop) bool) string {
	for _, role := range Roles() {
		if still, ok := w.deps.Loops[role]; ok && tooLong(still()) {
			return "the " + role
		}
	}
	return ""
}
