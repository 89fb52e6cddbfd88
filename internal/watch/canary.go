package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/subscriptions"
)

// What the canary is among the operator's things.
const (
	CanaryTenant    = "postrider-canary" // its tenant's uid
	canaryEndpoint  = "canary"           // its endpoint's
	CanaryEventType = "postrider.canary"
	// CanaryPath is where its receiver is, with a token behind it that only its endpoint's URL has.
	CanaryPath = "/canary/"
)

const (
	// canaryLook is how often is looked whether it is time, and how far one has come.
	canaryLook = time.Second
	// canaryOut is how long one may be on its way at most.
	canaryOut = time.Minute
)

// Sender sends canaries. Several processes may; of each turn it is one.
type Sender struct {
	watch  *Watch
	intake *intake.Intake
	store  *subscriptions.Store // one that takes the canary's URL, which others' endpoints may not have
	base   string               // where the receiver is: scheme and host
}

// NewSender makes a Sender of canaries to a receiver at a base URL.
func NewSender(w *Watch, in *intake.Intake, store *subscriptions.Store, base string) *Sender {
	return &Sender{watch: w, intake: in, store: store, base: strings.TrimSuffix(base, "/")}
}

// Run sends a canary each time that it is one's turn, until ctx ends.
func (s *Sender) Run(ctx context.Context) error {
	ctx = audit.With(ctx, audit.System("canary"))
	tick := time.NewTicker(min(canaryLook, s.watch.deps.Bounds.CanaryEvery/4))
	defer tick.Stop()
	for failing := false; ; {
		_, err := s.RunOnce(ctx, tick.C)
		if err != nil && !failing && ctx.Err() == nil {
			s.watch.deps.Log.Warn().Err(err).Msg("canary.failed")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// RunOnce sends a canary if it is time, and waits until it is through or stuck, looking at each tick. An error is one of the
// database; where a canary is stuck is in its row.
func (s *Sender) RunOnce(ctx context.Context, tick <-chan time.Time) (came bool, err error) {
	w := s.watch
	row, mine, err := w.takeTurn(ctx, w.deps.Now())
	if !mine || err != nil {
		return false, err
	}
	if before := row.event(); !before.IsZero() { // of a process that died, or that gave it up
		if _, _, err := w.deps.Desk.CancelEvent(ctx, before); err != nil && !settled(err) {
			return false, err //nolint:wrapcheck // says what it did
		}
	}
	receipt, err := s.accept(ctx, row)
	if err != nil {
		return false, errors.Join(err, w.stuck(ctx, row.Turn, "it was not accepted: "+err.Error()))
	}
	return s.follow(ctx, row.Turn, receipt, tick)
}

// settled says that there is nothing left to cancel.
func settled(err error) bool { return fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) }

// stuck notes where a canary does not get on.
func (w *Watch) stuck(ctx context.Context, turn int64, problem string) error {
	return w.noteCanary(ctx, canaryStuckSQL, pgx.StrictNamedArgs{"turn": turn, "problem": problem})
}

// accept enqueues the turn's event as any producer's is.
func (s *Sender) accept(ctx context.Context, row canaryRow) (intake.Receipt, error) {
	w := s.watch
	t, e, err := s.home(ctx, row)
	if err != nil {
		return intake.Receipt{}, err
	}
	if err := w.noteCanary(ctx, canaryHomeSQL, pgx.StrictNamedArgs{
		"turn": row.Turn, "shard": t.ID.Shard, "tenant": t.ID.N, "endpoint": e.ID.N, "url": e.URL,
	}); err != nil {
		return intake.Receipt{}, err
	}
	payload, err := json.Marshal(note{Turn: row.Turn})
	if err != nil {
		return intake.Receipt{}, fmt.Errorf("write the canary's payload: %w", err)
	}
	receipts, _, err := s.intake.Accept(ctx, t.ID, "", []intake.Event{{
		Type: CanaryEventType, Payload: payload, EndpointIDs: []string{id.Endpoint.Format(e.ID)},
	}})
	if err != nil {
		return intake.Receipt{}, err //nolint:wrapcheck // says what is wrong with it
	}
	r := receipts[0]
	return r, w.noteCanary(ctx, canaryAcceptedSQL, pgx.StrictNamedArgs{"turn": row.Turn, "event": r.ID.N, "at": r.CreatedAt})
}

// note is the canary's payload.
type note struct {
	Turn int64 `json:"turn"`
}

// follow waits until the canary is through: received with a good signature, and recorded.
func (s *Sender) follow(ctx context.Context, turn int64, r intake.Receipt, tick <-chan time.Time) (came bool, err error) {
	w := s.watch
	deadline := time.NewTimer(min(w.deps.Bounds.CanaryEvery, canaryOut))
	defer deadline.Stop()
	told := ""
	for late := false; ; {
		row, err := w.readCanary(ctx)
		if err != nil || row.Turn != turn { // another process has gone on
			return false, err
		}
		stage, through, err := s.stage(ctx, row, r)
		if err != nil {
			return false, err
		}
		if through {
			w.deps.Metrics.CanaryCame(max(row.ReceivedAt.Sub(r.CreatedAt), 0))
			return true, w.noteCanary(ctx, canaryThroughSQL, pgx.StrictNamedArgs{"turn": turn, "at": w.deps.Now()})
		}
		if (late || stage.failed) && stage.words != told {
			// They go to chats and logs, where the token is not for: who answers in the receiver's place may repeat it.
			if err := w.stuck(ctx, turn, strings.ReplaceAll(stage.words, tokenOf(*row.URL), "…")); err != nil {
				return false, err
			}
			told = stage.words
		}
		if late {
			if _, _, err := w.deps.Desk.CancelEvent(ctx, r.ID); err != nil && !settled(err) {
				return false, err //nolint:wrapcheck // says what it did
			}
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-deadline.C:
			late = true
		case <-tick:
		}
	}
}

// stage is how far a canary has come.
type stage struct {
	words  string
	failed bool // an attempt has
}

func (s *Sender) stage(ctx context.Context, row canaryRow, r intake.Receipt) (_ stage, through bool, err error) {
	desk := s.watch.deps.Desk
	if r.Deliveries == 0 {
		return stage{words: "it was accepted, and no delivery was made of it", failed: true}, false, nil
	}
	found, err := desk.List(ctx, dispatcher.Filter{Event: &r.ID}, 1, id.ID{})
	if err != nil {
		return stage{}, false, err //nolint:wrapcheck // says what it did
	}
	if len(found) == 0 {
		return stage{words: "its delivery is gone", failed: true}, false, nil
	}
	d := found[0]
	switch {
	case row.ReceivedAt != nil && d.State == dispatcher.StateSucceeded:
		return stage{}, true, nil
	case row.ReceivedAt != nil:
		return stage{words: "it was received, and its delivery is not recorded"}, false, nil
	case d.State == dispatcher.StateSucceeded:
		return stage{words: "its delivery was answered with success, and not by its receiver: " + s.base + " leads somewhere else", failed: true}, false, nil
	case d.LastOutcome != nil:
		words, err := s.attempt(ctx, d)
		return stage{words: words, failed: true}, false, err
	case d.State == dispatcher.InFlight:
		return stage{words: "it is being sent, and has no answer yet"}, false, nil
	default:
		return stage{words: "it was accepted and is not sent (its delivery is " + d.State.String() + ")"}, false, nil
	}
}

// attempt says what came of the last attempt.
func (s *Sender) attempt(ctx context.Context, d dispatcher.Delivery) (string, error) {
	words := "sending it ended as " + d.LastOutcome.String()
	attempts, err := s.watch.deps.Desk.Attempts(ctx, d.ID, 1, id.ID{})
	if err != nil || len(attempts) == 0 {
		return words, err //nolint:wrapcheck // says what it did
	}
	a := attempts[0]
	if a.Status != nil {
		const most = 200
		words += fmt.Sprintf(" (%d): %s", *a.Status, a.ResponseBody[:min(len(a.ResponseBody), most)])
	} else if a.ErrorDetail != "" {
		words += ": " + a.ErrorDetail
	}
	return strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(words, "\x00", ""), "\uFFFD")), nil
}
