package alert

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/id"
)

const (
	// maxTries is how often a notice is tried before it is given up: with the delays of retryDelay, about 13 hours.
	maxTries = 20
	// roundSize is how many notices are claimed and sent at once.
	roundSize = 32
	// sendTimeout bounds one notice on one channel.
	sendTimeout = 15 * time.Second
	// noticeLease is how long a claimed notice is out of others' reach: a round's sending and writing down, with room.
	noticeLease = time.Minute
)

// Sender carries notices from the outbox to the channels of alerts.urls, and to the log. Several processes may run one
// each: a notice is claimed by pushing its next try forward, so no transaction is open while it is sent.
//
// Delivery to a channel is at least once: a process that dies between sending and writing that down leaves the notice
// to be sent again when its claim ends. Notices of one alert go in their order, each when the one before it is through.
type Sender struct {
	db       *pgxpool.Pool
	now      func() time.Time
	log      zerolog.Logger
	channels []*channel
}

// SenderConfig is where notices go.
type SenderConfig struct {
	URLs []string // service URLs of shoutrrr; none is fine, the notices are logged all the same
}

// SenderDeps is what a Sender works with.
type SenderDeps struct {
	DB  *pgxpool.Pool
	Now func() time.Time // the database's clock
	Log zerolog.Logger
}

// NewSender makes a sender. The error names the place in the list of URLs and not the URL, which holds secrets.
func NewSender(c SenderConfig, d SenderDeps) (*Sender, error) {
	s := &Sender{db: d.DB, now: d.Now, log: d.Log}
	for i, url := range c.URLs {
		c, err := newChannel(url)
		if err != nil {
			return nil, fmt.Errorf("alerts.urls, %w", badItem(i, err))
		}
		s.channels = append(s.channels, c)
	}
	return s, nil
}

// CheckURLs says whether NewSender would take these URLs, without talking to anyone. Its error repeats no URL either.
func CheckURLs(urls []string) error {
	for i, url := range urls {
		if _, err := newChannel(url); err != nil {
			return badItem(i, err)
		}
	}
	return nil
}

func badItem(i int, err error) error { return fmt.Errorf("item %d: %w", i+1, err) }

// SendDue sends what is due until nothing more is, and returns how many notices are through on every channel. A channel
// that fails is logged and tried again later; the error is about the database alone.
func (s *Sender) SendDue(ctx context.Context) (int, error) {
	sent := 0
	for {
		notices, err := s.claim(ctx)
		if len(notices) == 0 || err != nil {
			// What was claimed before an error stays claimed and comes back when its lease ends.
			return sent, err
		}
		for _, n := range notices {
			if n.Attempts == 1 { // claims of one notice are counted under its lock: only one is the first
				s.announce(n)
			}
		}
		results := s.sendAll(ctx, notices)
		for _, r := range results {
			if r.done() {
				sent++
			}
		}
		// A notice that went out is written down even when the process is being stopped: otherwise it goes out twice.
		finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		err = s.settle(finish, results)
		cancel()
		if err != nil || ctx.Err() != nil {
			return sent, errors.Join(err, ctx.Err())
		}
	}
}

// announce writes the notice's one line in the log.
func (s *Sender) announce(n notice) {
	level := zerolog.WarnLevel
	if n.Verb == "resolved" {
		level = zerolog.InfoLevel
	}
	s.log.WithLevel(level).
		Str("alert", id.Alert.Format(id.ID{Shard: n.Shard, N: n.Alert})).
		Func(func(line *zerolog.Event) {
			if n.Tenant != 0 {
				line.Str("tenant", id.Tenant.Format(id.ID{Shard: n.Shard, N: n.Tenant})).
					Str("endpoint", id.Endpoint.Format(id.ID{Shard: n.Shard, N: n.Endpoint}))
			}
		}).
		Str("kind", n.Kind).Int("count", n.Count).Str("detail", n.Detail).
		Msg("alert." + n.Verb)
}

// result is what became of one notice: the channels that have it now, and what the others said.
type result struct {
	notice
	err error
}

func (r result) done() bool { return r.err == nil }

// sendAll sends the notices at the same time, so that the round takes no longer than its slowest one.
func (s *Sender) sendAll(ctx context.Context, notices []notice) []result {
	out := make([]result, len(notices))
	var all sync.WaitGroup
	for i, n := range notices {
		all.Go(func() { out[i] = s.send(ctx, n) })
	}
	all.Wait()
	return out
}
