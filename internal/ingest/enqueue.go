package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"

	"github.com/postrider/postrider/client"
)

const (
	maxInBatch  = 256 << 10 // bytes of a payload that goes with others
	bytesOfCall = 4 << 20   // of all payloads of a call
)

// letter is a message and what it says.
type letter struct {
	*Message
	event client.Event
}

// enqueue answers for each message, in calls of as many as may go together. Those of one tenant stay in their order.
func (r *run) enqueue(ctx context.Context, messages []*Message) error {
	byTenant := map[string][]letter{}
	var tenants []string
	for _, m := range messages {
		e, err := r.event(m)
		if err != nil {
			if err := r.refuse(ctx, m, err); err != nil {
				return err
			}
			continue
		}
		if byTenant[e.Tenant] == nil {
			tenants = append(tenants, e.Tenant)
		}
		byTenant[e.Tenant] = append(byTenant[e.Tenant], letter{m, e})
	}
	for _, tenant := range tenants {
		for _, some := range calls(byTenant[tenant]) {
			if err := r.send(ctx, some); err != nil {
				return err
			}
		}
	}
	return nil
}

// calls cuts letters where one cannot go with the one before it.
func calls(letters []letter) (out [][]letter) {
	size := 0
	for n := range letters {
		together := inBatch(&letters[n].event)
		last := len(out) - 1
		if last < 0 || !together || !inBatch(&out[last][0].event) || size+len(letters[n].Body) > bytesOfCall {
			out, size = append(out, nil), 0
			last++
		}
		out[last] = append(out[last], letters[n])
		size += len(letters[n].Body)
	}
	return out
}

// send has some letters of one tenant stored, and keeps at it as long as it may help.
func (r *run) send(ctx context.Context, letters []letter) error {
	for waits := r.pauses(); len(letters) > 0; {
		receipts, err := r.call(ctx, letters)
		if err == nil {
			for n, l := range letters {
				r.ack(l.Message, receipts[n])
			}
			return nil
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // asked to stop: what is open comes again
		}
		var refusal *client.Error
		switch {
		case !errors.As(err, &refusal) || !lasting(refusal.Status):
			r.Log.Warn().Int("messages", len(letters)).Err(err).Msg("ingest.server_unavailable")
			waits.wait(ctx)
		case !aboutContent(refusal), refusal.Status == http.StatusNotFound && r.Tenant != "": // a tenant that was mistyped
			return fmt.Errorf("enqueue %d messages, none of which was acknowledged: %w", len(letters), err)
		default:
			if letters, err = r.sort(ctx, letters, refusal); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) call(ctx context.Context, letters []letter) ([]client.Receipt, error) {
	if len(letters) == 1 {
		receipt, err := r.to.Enqueue(ctx, letters[0].event)
		return []client.Receipt{receipt}, err //nolint:wrapcheck // said where it ends
	}
	events := make([]client.Event, len(letters))
	for n, l := range letters {
		events[n] = l.event
	}
	return r.to.EnqueueBatch(ctx, events[0].Tenant, events) //nolint:wrapcheck // said where it ends
}

// lasting reports whether the same call would be refused again. 0: the client refused it by itself.
func lasting(status int) bool {
	return status < 500 && status != http.StatusRequestTimeout && status != http.StatusTooEarly && status != http.StatusTooManyRequests
}

// aboutContent reports whether a refusal is about what was sent, and not about who sent it or to where. Without a word it is not
// Postrider's: the URL is another server's.
func aboutContent(refusal *client.Error) bool {
	if refusal.Status != 0 && refusal.Detail == "" {
		return false
	}
	switch refusal.Status {
	case 0, http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity:
		return true
	}
	return false
}

var ofBatch = regexp.MustCompile(`^/events/(\d+)(/|$)`)

// sort refuses the letters that a refused call names, and gives the others. A call that names none is halved by whoever calls,
// until it is one letter, which is then the one at fault. An unknown tenant is all letters' fault.
func (r *run) sort(ctx context.Context, letters []letter, refusal *client.Error) (good []letter, err error) {
	bad := map[int]error{}
	for _, e := range refusal.Errors {
		if at := ofBatch.FindStringSubmatch(e.Pointer); at != nil {
			if n, err := strconv.Atoi(at[1]); err == nil && n < len(letters) {
				bad[n] = errors.Join(bad[n], fmt.Errorf("%s: %s", e.Pointer[len(at[0])-len(at[2]):], e.Detail))
			}
		}
	}
	if len(letters) == 1 || refusal.Status == http.StatusNotFound {
		for n := range letters {
			bad[n] = refusal
		}
	}
	if len(bad) == 0 {
		half := len(letters) / 2
		return letters[half:], r.send(ctx, letters[:half])
	}
	for n, l := range letters {
		if cause, is := bad[n]; !is {
			good = append(good, l)
		} else if err := r.refuse(ctx, l.Message, cause); err != nil {
			return nil, err
		}
	}
	return slices.Clip(good), nil
}
