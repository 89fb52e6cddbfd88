// Package schedules makes events again and again, at the times of a cron expression in a time zone. It keeps tenants' schedules, and
// processes with the role scheduler make the events of those that are due: it is the one writer of the tables schedules and
// schedule_occurrences.
//
// The time up to which a schedule is dealt with moves on in the transaction that accepts the event of an occurrence. So whatever
// is killed, and however many processes look, each occurrence makes one event.
//
// The package delivers nothing and knows no endpoints: what becomes of an event, intake says.
package schedules

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pulse"
)

// Late says what becomes of occurrences that nobody was there to deal with in time. Its value is what the API and the database show.
type Late string

// The policies.
const (
	All  Late = "all"  // each makes its event, one after the other
	Last Late = "last" // the newest does, unless one that is in time is due as well
	None Late = "none" // they are skipped
)

// Lates gives all of them, the default first.
func Lates() []Late { return []Late{All, Last, None} }

// Status is how a schedule is.
type Status string

// The statuses.
const (
	Active  Status = "active"
	Failing Status = "failing" // the last occurrence made no event
	Paused  Status = "paused"
)

// Statuses gives all of them.
func Statuses() []Status { return []Status{Active, Failing, Paused} }

// Schedule is a schedule as people see it.
type Schedule struct {
	ID        id.ID
	Tenant    id.ID
	Terms     Terms
	NextAt    *time.Time // nil: it is paused
	LastAt    *time.Time // the last occurrence that was dealt with, or run by hand
	LastEvent *id.ID     // the last that it made
	LastError string     // why the last occurrence made none; "": it did
	Skipped   int64      // occurrences that were too late
	UpdatedAt time.Time
}

// Terms are what of a schedule its owner says.
type Terms struct {
	UID         string // "": none
	Description string
	Cron        string
	Timezone    string
	Type        string
	ContentType string
	Payload     []byte
	GroupKey    string
	EndpointIDs []string // nil: all that subscribe
	Metadata    map[string]any
	Late        Late
	Paused      bool
}

// CreatedAt is when it was made.
func (s Schedule) CreatedAt() time.Time { return s.ID.Time() }

// Status is how it is.
func (s Schedule) Status() Status {
	switch {
	case s.Terms.Paused:
		return Paused
	case s.LastError != "":
		return Failing
	}
	return Active
}

// Occurrence is what became of one time of a schedule.
type Occurrence struct {
	At     time.Time
	ByHand bool
	Event  *id.ID // nil: it failed
	Error  string
}

// Deps is what schedules work with.
type Deps struct {
	DB     *pgxpool.Pool
	IDs    *id.Generator
	Now    func() time.Time // the database's clock
	Intake *intake.Intake
	Log    zerolog.Logger
}

// Schedules is where they are made, read, changed and run. It is safe for concurrent use.
type Schedules struct {
	deps  Deps
	news  chan struct{} // one has been made or changed here
	going pulse.Pulse
}

// New makes it. It starts nothing: see Run.
func New(d Deps) *Schedules { return &Schedules{deps: d, news: make(chan struct{}, 1)} }

// tell has Run look at when the next is due.
func (s *Schedules) tell() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}
