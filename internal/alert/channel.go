package alert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"
)

// channel is one of alerts.urls.
type channel struct {
	url         string
	name        string // the service, for people: "slack"
	fingerprint string // tells channels apart in the database without saying anything about them
	titled      bool   // the title is ours to set
	redact      func(string) string
	slots       chan struct{}
}

// titled are the services whose title, unless the URL sets one, is the library's name; elsewhere the message's first
// line does.
var titled = map[string]bool{"smtp": true, "pushbullet": true, "gotify": true}

// newChannel checks as much of the URL as can be checked without talking to anyone: some services log in when they are
// set up, so that is left to the first send.
func newChannel(raw string) (*channel, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		return nil, errors.New("not a service URL of shoutrrr") // url.Parse's own error repeats the URL
	}
	name, _, _ := strings.Cut(u.Scheme, "+") // generic+https is generic with an ordinary URL
	if _, err := (&router.ServiceRouter{}).NewService(name); err != nil {
		return nil, fmt.Errorf("shoutrrr has no service %q", name)
	}
	query := u.Query()
	sum := sha256.Sum256([]byte(raw))
	return &channel{
		url: raw, name: name, fingerprint: hex.EncodeToString(sum[:4]),
		titled: titled[name] && !query.Has("title") && !query.Has("subject"),
		redact: redactor(raw), slots: make(chan struct{}, roundSize),
	}, nil
}

// send hands the message to the service and waits for it no longer than sendTimeout.
//
// The library takes no context and gives some services no timeout at all, so a send that hangs goes on behind our back.
// Its slot stays taken until it ends, which bounds how many there can be. Each send sets the service up anew, since
// sends may run side by side and services keep state.
func (c *channel) send(ctx context.Context, title, message string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, sendTimeout, fmt.Errorf("no answer within %v", sendTimeout))
	defer cancel()
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%s: earlier messages hang: %w", c.name, context.Cause(ctx))
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-c.slots }()
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("the service's code broke: %v", p)
			}
		}()
		done <- c.hand(title, message)
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("%s: %s", c.name, c.redact(err.Error()))
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", c.name, context.Cause(ctx))
	}
}

func (c *channel) hand(title, message string) error {
	service, err := (&router.ServiceRouter{Timeout: sendTimeout}).Locate(c.url)
	if err != nil {
		return err
	}
	params := types.Params{}
	if c.titled {
		params.SetTitle(title)
	}
	return service.Send(message, &params)
}

// send sends one notice to the channels that do not have it yet, all at the same time.
func (s *Sender) send(ctx context.Context, n notice) result {
	r := result{notice: n}
	had := map[string]bool{}
	for _, f := range n.SentTo {
		had[f] = true
	}
	title, text := message(n)
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, c := range s.channels {
		if had[c.fingerprint] {
			continue
		}
		all.Go(func() {
			err := c.send(ctx, title, text)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				r.err = errors.Join(r.err, err)
				return
			}
			r.SentTo = append(r.SentTo, c.fingerprint)
		})
	}
	all.Wait()
	return r
}

// round makes a duration readable: to the second under an hour, to the minute beyond.
func round(d time.Duration) time.Duration {
	if d < time.Hour {
		return d.Round(time.Second)
	}
	return d.Round(time.Minute)
}
