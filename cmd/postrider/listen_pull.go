package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/devreceiver"
	"github.com/postrider/postrider/internal/duration"
)

const (
	// pollAtOnce is how many are fetched, and passed on side by side.
	pollAtOnce = 10
	pollWait   = "20s"
	// leaseSlack is what a lease has beyond what the answers may take.
	leaseSlack = 20 * time.Second
	// How long to wait before a server that cannot be reached is asked again.
	firstRetry, slowRetry = 250 * time.Millisecond, 5 * time.Second
)

// polled is a delivery that was fetched.
type polled struct {
	Token      string            `json:"token"`
	DeliveryID string            `json:"delivery_id"`
	Headers    map[string]string `json:"headers"`
	Payload    []byte            `json:"payload_base64"`
}

// puller fetches what waits for an endpoint of kind pull, has the receiver take it as if it had been posted, and
// acknowledges what was answered 2xx. The rest comes again when its lease ends.
type puller struct {
	*listener
	receiver *devreceiver.Receiver
	lease    string
}

func (l *listener) puller() *puller {
	p := &puller{l, l.receiver(), l.flags.lease}
	if p.lease == "" {
		patience, _ := duration.Parse(l.flags.timeout) // they were judged
		delay, _ := duration.Parse(l.flags.delay)
		p.lease = duration.Format(patience + delay + leaseSlack)
	}
	return p
}

// run fetches until ctx ends or there was enough. A server that is away is asked again and again.
func (p *puller) run(ctx context.Context) error {
	pause := firstRetry
	for ctx.Err() == nil {
		wait := pollWait
		if pause != firstRetry {
			wait = "0s" // whether it is there again shows at once
		}
		got, err := p.poll(ctx, wait)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // asked to stop meanwhile
		case err != nil && !passing(err):
			return err
		case err != nil:
			p.say("%v; asking again in %s", err, pause)
			rest(ctx, pause)
			pause = min(2*pause, slowRetry)
			continue
		}
		if pause != firstRetry {
			p.say("the server is there again")
			pause = firstRetry
		}
		if err := p.acknowledge(ctx, p.take(ctx, got)); err != nil {
			return err
		}
	}
	return nil
}

// passing tells what may be over in a moment from what will not: a server that is away, restarts or has too much to do
// from one that says no.
func passing(err error) bool {
	var p *problem
	return !errors.As(err, &p) || p.Status >= 500 || p.Status == http.StatusTooManyRequests || p.Status == http.StatusRequestTimeout
}

func (p *puller) poll(ctx context.Context, wait string) ([]polled, error) {
	limit := pollAtOnce
	if p.flags.count > 0 {
		limit = min(limit, p.flags.count-p.count) // what is leased beyond it would wait for its lease
	}
	body, err := p.server.do(ctx, call{
		method: http.MethodGet, path: endpointPath(p.flags.tenant, p.endpoint, "poll"),
		query: url.Values{"limit": {strconv.Itoa(limit)}, "wait": {wait}, "lease": {p.lease}},
	})
	if err != nil {
		return nil, err
	}
	answer, err := decode[struct {
		Data []polled `json:"data"`
	}](body)
	return answer.Data, err
}

// take has the receiver take each, and gives the tokens of those that were answered 2xx. A signal leaves them the time
// that a server's requests have: what the app is doing with them would else be done again.
func (p *puller) take(ctx context.Context, got []polled) (tokens []string) {
	taking, cancel := linger(ctx)
	defer cancel()
	taken := make([]bool, len(got))
	var all sync.WaitGroup
	for i, one := range got {
		all.Go(func() {
			header := http.Header{}
			for name, value := range one.Headers {
				header.Set(name, value)
			}
			r, ok := p.receiver.Take(taking, header, one.Payload)
			taken[i] = ok && accepted(r)
		})
	}
	all.Wait()
	for i, one := range got {
		if taken[i] {
			tokens = append(tokens, one.Token)
		}
	}
	return tokens
}

// linger gives a context that outlives ctx for a while.
func linger(ctx context.Context) (longer context.Context, cancel context.CancelFunc) {
	longer, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		rest(longer, httpDrain)
		end()
	})
	return longer, func() { stop(); end() }
}

// accepted says whether a request was taken.
func accepted(r devreceiver.Received) bool {
	return r.Err == nil && r.Answer.Status >= 200 && r.Answer.Status <= 299
}

// acknowledge says that deliveries were taken, also after a signal. What the server does not hear of comes again.
func (p *puller) acknowledge(ctx context.Context, tokens []string) error {
	if len(tokens) == 0 {
		return nil
	}
	body, err := json.Marshal(map[string][]string{"tokens": tokens})
	if err != nil {
		return err
	}
	what := call{method: http.MethodPost, path: endpointPath(p.flags.tenant, p.endpoint, "ack"), body: body}
	telling, cancel := linger(ctx)
	defer cancel()
	for pause := firstRetry; ; pause = min(2*pause, slowRetry) {
		answer, err := p.server.do(telling, what)
		switch {
		case err == nil:
			return p.tellLost(answer)
		case !passing(err) || telling.Err() != nil:
			return fmt.Errorf("acknowledge %d deliveries, which come again: %w", len(tokens), err)
		}
		p.say("acknowledge: %v; trying again in %s", err, pause)
		rest(telling, pause)
	}
}

func (p *puller) tellLost(body json.RawMessage) error {
	answer, err := decode[struct {
		Data []struct {
			DeliveryID *string `json:"delivery_id"`
			State      string  `json:"state"`
			Detail     *string `json:"detail"`
		} `json:"data"`
	}](body)
	if err != nil {
		return err
	}
	for _, one := range answer.Data {
		if one.State != "acknowledged" {
			p.say("not acknowledged: %s: %s, %s", orUnknown(text(one.DeliveryID)), one.State, text(one.Detail))
		}
	}
	return nil
}
