package alert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/robfig/cron/v3"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/id"
)

const (
	// maxTries is how often a notice is tried on a road before it is given up there: with the delays of retryDelay, about 13 hours.
	maxTries = 20
	// roundSize is how many alerts are claimed at once: an outage is to be told in few messages.
	roundSize = 2000
	// sendTimeout bounds one message on one channel.
	sendTimeout = 15 * time.Second
	// noticeLease is how long a claimed notice is out of others' reach: a round's sending and writing down, with room.
	noticeLease = 2 * time.Minute
	// stopGrace is how long messages that are on their way at a stop may take to get there, so that nobody sends them again.
	stopGrace = 3 * time.Second
)

// Sender carries notices from the outbox to the channels of alerts.urls and the other roads, and to the log. Several processes
// run one each: a notice is claimed by a lease in its row, so no transaction is open while it is sent.
//
// Delivery to a channel is at least once: a process that dies between sending and writing that down leaves the notice
// to be sent again when its claim ends. What a channel is told of one alert goes in its order.
type Sender struct {
	config   SenderConfig
	deps     SenderDeps
	db       *pgxpool.Pool
	now      func() time.Time
	log      zerolog.Logger
	channels []*channel
	roads    []road
	digest   cron.Schedule // nil: never
	looked   time.Time     // when Oldest was told last
}

// SenderConfig is where notices go.
type SenderConfig struct {
	URLs      []string // service URLs of shoutrrr; none is fine, the notices are logged all the same
	Throttle  Throttle // of each of them
	PublicURL string   // where the console is reached; "": messages have no links
	MailURL   string   // of the SMTP server for mail to tenants; "": they get none
	MailName  string   // what mails call what they are about; "": Webhooks
	Digest    string   // when the channels get a summary, a cron expression; "": never
	Timezone  string   // that Digest is of; "": UTC
}

// SenderDeps is what a Sender works with.
type SenderDeps struct {
	DB  *pgxpool.Pool
	Now func() time.Time // the database's clock
	Log zerolog.Logger
	// Count is told what became of notices (sent, failed, given_up), Oldest for how long the oldest has not been through. May be nil.
	Count  func(result string, n int)
	Oldest func(age time.Duration)
	// Operator is who gets events; nil: nobody.
	Operator *Operator
}

// NewSender makes a sender. The error names the place in the list of URLs and not the URL, which holds secrets.
func NewSender(c SenderConfig, d SenderDeps) (*Sender, error) {
	if c.Throttle == (Throttle{}) {
		c.Throttle = Throttle{Messages: 20, Per: 10 * time.Minute}
	}
	if d.Count == nil {
		d.Count = func(string, int) {}
	}
	if d.Oldest == nil {
		d.Oldest = func(time.Duration) {}
	}
	if c.MailName == "" {
		c.MailName = "Webhooks"
	}
	s := &Sender{config: c, deps: d, db: d.DB, now: d.Now, log: d.Log}
	for i, url := range c.URLs {
		ch, err := newChannel(url)
		if err != nil {
			return nil, fmt.Errorf("alerts.urls, %w", badItem(i, err))
		}
		s.channels = append(s.channels, ch)
		s.roads = append(s.roads, channelRoad{s, ch})
	}
	if c.MailURL != "" {
		m, err := newMailer(c.MailURL)
		if err != nil {
			return nil, fmt.Errorf("alerts.mail_url: %w", err)
		}
		s.roads = append(s.roads, mailRoad{s, m})
	}
	if d.Operator != nil {
		s.roads = append(s.roads, eventRoad{s, *d.Operator})
	}
	if c.Digest != "" {
		var err error
		if s.digest, err = schedule(c.Digest, c.Timezone); err != nil {
			return nil, fmt.Errorf("alerts.digest: %w", err)
		}
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

// SendDue sends what is due until nothing more is, and returns how many notices are through on every road. A road
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
		n, err := s.round(ctx, notices)
		sent += n
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
		Func(func(e *zerolog.Event) {
			if n.Tenant != 0 {
				e.Str("tenant", id.Tenant.Format(id.ID{Shard: n.Shard, N: n.Tenant})).
					Str("endpoint", id.Endpoint.Format(id.ID{Shard: n.Shard, N: n.Endpoint}))
			}
		}).
		Str("kind", n.kind()).Int("count", n.Count).Str("detail", n.Detail).Msg("alert." + n.Verb)
}
