// Package jobs acts on many deliveries at once: it retries or cancels what a filter means, replays past events, and erases tenants. A job is
// made at once and worked off bit by bit by processes with the role scheduler, at a pace, so that a hundred thousand deliveries
// neither hold up a request nor stand in the way of new events. It is the one writer of the tables jobs and job_chunks.
//
// How far a job has come is written in the transaction of the work itself, so that whatever is killed, nothing is done twice.
// A lease says whose turn it is; when its process dies, another goes on.
//
// The package sends nothing and decides nothing about a delivery: what may be retried or replayed, dispatcher and intake say.
package jobs

import (
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
)

// Kind is what a job does. Its value is what the API and the database show.
type Kind string

// The kinds.
const (
	Retry  Kind = "retry"  // deliveries, as Desk.Retry does one
	Cancel Kind = "cancel" // deliveries, as Desk.Cancel does one
	Replay Kind = "replay" // past events, to one endpoint or of one event
	Erase  Kind = "erase"  // a tenant, with all that there is of it
)

// Kinds gives all of them.
func Kinds() []Kind { return []Kind{Retry, Cancel, Replay, Erase} }

// State is how a job is. Its value is what the API and the database show.
type State string

// The states. The last three are final.
const (
	Queued    State = "queued"
	Running   State = "running"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// States gives all of them.
func States() []State { return []State{Queued, Running, Succeeded, Failed, Cancelled} }

// Finished reports whether nothing more happens to a job.
func (s State) Finished() bool { return s == Succeeded || s == Failed || s == Cancelled }

// Job is a job as people see it.
type Job struct {
	ID             id.ID
	Tenant         *id.ID // nil: the operator's, over all tenants
	Kind           Kind
	State          State
	Spec           json.RawMessage // what was asked for
	CreatedBy      string
	InPortal       bool  // by somebody of the tenant
	Matched        int64 // deliveries; of a replay, events that are to go to an endpoint
	MatchedAtLeast bool  // there may be more: counting them all would have taken too long
	Done           int64
	Skipped        int64  // what had changed by the time that its turn came, or was in flight
	Error          string // of a failed one
	StartedAt      *time.Time
	FinishedAt     *time.Time
}

// CreatedAt is when it was made.
func (j Job) CreatedAt() time.Time { return j.ID.Time() }

// Share is how much of what was matched has had its turn, of a hundred.
func (j Job) Share() int {
	if j.Matched <= 0 {
		return 100
	}
	return int(min((j.Done+j.Skipped)*100/j.Matched, 100))
}

// Deps is what jobs work with.
type Deps struct {
	DB     *pgxpool.Pool
	IDs    *id.Generator
	Now    func() time.Time // the database's clock
	Desk   *dispatcher.Desk
	Intake *intake.Intake
	Wake   func(shard int16) // tells dispatchers of due work; called after the commit
	Log    zerolog.Logger

	Batch int // how many are done in a transaction; 0: 250
	Rate  int // and how many a second by one job; 0: 500
}

const (
	defaultBatch = 250
	defaultRate  = 500
)

// Jobs is where jobs are made, read, cancelled and worked off. It is safe for concurrent use.
type Jobs struct {
	deps  Deps
	owner int64         // of this process's leases
	news  chan struct{} // a job has been made here
}

// New makes it. It starts nothing: see Run.
func New(d Deps) *Jobs {
	if d.Batch <= 0 {
		d.Batch = defaultBatch
	}
	if d.Rate <= 0 {
		d.Rate = defaultRate
	}
	if d.Wake == nil {
		d.Wake = func(int16) {}
	}
	return &Jobs{deps: d, owner: d.IDs.Next(), news: make(chan struct{}, 1)}
}
