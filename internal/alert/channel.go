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
)

// channel is one of alerts.urls.
type channel struct {
	url         string
	name        string          // the service, for people: "slack"
	fingerprint string          // tells channels apart in the database without saying anything about them
	titled      bool            // the title is ours to set
	given       map[string]bool // what the URL's query says itself
	redact      func(string) string
	json        bool // takes fields for machines
	slots       slots
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
	given := map[string]bool{}
	for key := range query {
		given[strings.ToLower(key)] = true
	}
	sum := sha256.Sum256([]byte(raw))
	if name == "pagerduty" {
		raw = completed(*u)
	}
	return &channel{
		url: raw, name: name, fingerprint: hex.EncodeToString(sum[:4]), given: given,
		titled: titled[name] && !query.Has("title") && !query.Has("subject"),
		redact: redactor(raw), slots: newSlots(),
		json: name == "generic" && strings.EqualFold(query.Get("template"), "json"),
	}, nil
}

// completed gives a URL of PagerDuty the host and port that its documentation says are the default, and the library does not set.
func completed(u url.URL) string {
	if u.Host == "" {
		u.Host = "events.pagerduty.com"
	}
	if u.Port() == "" {
		u.Host += ":443"
	}
	return u.String()
}

// send hands the message to the service and waits for it no longer than sendTimeout.
//
// The library takes no context and gives some services no timeout at all. Each send sets the service up anew, since sends may run
// side by side and services keep state.
func (c *channel) send(ctx context.Context, m message) error {
	ctx, cancel := context.WithTimeoutCause(ctx, sendTimeout, fmt.Errorf("no answer within %v", sendTimeout))
	defer cancel()
	if err := c.slots.wait(ctx, func() error { return c.hand(m) }); err != nil {
		return fmt.Errorf("%s: %s", c.name, c.redact(err.Error()))
	}
	return nil
}

func (c *channel) hand(m message) error {
	service, err := (&router.ServiceRouter{Timeout: sendTimeout}).Locate(c.url)
	if err != nil {
		return err
	}
	text, params := c.form(m)
	return service.Send(text, &params)
}

// channelRoad is a channel as notices go to it.
type channelRoad struct {
	*Sender
	channel *channel
}

func (r channelRoad) name() string { return r.channel.name }

func (r channelRoad) key() string { return r.channel.fingerprint }

// tell tells what is news one by one, or as one message when it is much or the channel has had much lately.
func (r channelRoad) tell(ctx context.Context, told []story) []verdict {
	vs := make([]verdict, len(told))
	now := r.now()
	var news []int
	for i, st := range told {
		if st.news() == "" {
			continue
		}
		until, ok := st.damped(now)
		if ok {
			news = append(news, i)
		}
		vs[i].until = until
	}
	news = r.resolveSingly(ctx, now, told, news, vs)
	if len(news) == 0 {
		return vs
	}
	var oneByOne bool
	var wait time.Time
	err := r.spend(ctx, 0, 0, r.key(), now, func(p pace) pace {
		p, oneByOne, wait = p.channel(now, r.config.Throttle, len(news))
		return p
	})
	switch {
	case err != nil || !wait.IsZero():
		for _, i := range news {
			vs[i] = verdict{err: err, until: wait}
		}
	case oneByOne:
		r.each(ctx, told, news, vs)
	default:
		many := make([]story, len(news))
		for n, i := range news {
			many[n] = told[i]
		}
		err := r.channel.send(ctx, r.grouped(many))
		for _, i := range news {
			vs[i].err = err
		}
	}
	return vs
}

// each sends these stories as a message each, at the same time.
func (r channelRoad) each(ctx context.Context, told []story, which []int, vs []verdict) {
	var all sync.WaitGroup
	for _, i := range which {
		all.Go(func() { vs[i].err = r.channel.send(ctx, r.single(told[i])) })
	}
	all.Wait()
}

const (
	// PagerDuty takes some 120 events a minute.
	resolvedAtOnce = 20
	resolvedEvery  = 10 * time.Second
)

// resolveSingly tells what is over to a service that keeps incidents: one that it closes by its key, which pages nobody. It gives
// what is left to tell.
func (r channelRoad) resolveSingly(ctx context.Context, now time.Time, told []story, news []int, vs []verdict) []int {
	if r.channel.name != "pagerduty" {
		return news
	}
	var left, over []int
	for _, i := range news {
		switch {
		case !told[i].over():
			left = append(left, i)
		case told[i].opens(): // it never knew of it
		case len(over) == resolvedAtOnce:
			vs[i].until = now.Add(resolvedEvery)
		default:
			over = append(over, i)
		}
	}
	r.each(ctx, told, over, vs)
	return left
}
