package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/postrider/postrider/internal/duration"
)

const (
	// longestLook is how long the API waits for an event at most; a longer wait is several calls.
	longestLook = 30 * time.Second
	// betweenLooks is what the API's Retry-After says.
	betweenLooks = time.Second
)

// sendAndWait makes the call that enqueues an event and shows the event once it is finished, or as it is when the time is over.
// It is an error if by then it has not succeeded.
func (r *remote) sendAndWait(ctx context.Context, what call, tenant string, wait time.Duration) error {
	c, err := r.client()
	if err != nil {
		return err
	}
	body, err := c.do(ctx, what)
	if err != nil {
		return err
	}
	sent, err := decode[receipt](body)
	if err != nil {
		return err
	}
	e, body, err := c.finished(ctx, eventPath(tenant, sent.ID), time.Now().Add(wait))
	if err != nil {
		return fmt.Errorf("%s was accepted, but: %w", sent.ID, err)
	}
	if r.json {
		err = printJSON(r.w.stdout, body)
	} else {
		err = r.w.showEvent(body)
	}
	switch {
	case err != nil:
		return err
	case !e.finished():
		return fmt.Errorf("the event is %s still, after %s", e.Status, duration.Format(wait))
	case e.Status != "succeeded":
		return fmt.Errorf("the event is %s", e.Status)
	}
	return nil
}

func (e event) finished() bool {
	return e.Status == "succeeded" || e.Status == "failed" || e.Status == "cancelled"
}

// finished looks at an event until it is finished or the time is over.
func (c *client) finished(ctx context.Context, path []string, until time.Time) (e event, body json.RawMessage, err error) {
	for {
		left := max(time.Until(until), 0)
		look := min(left, longestLook).Truncate(time.Millisecond)
		asked := time.Now()
		if body, err = c.do(ctx, call{method: http.MethodGet, path: path, query: url.Values{"wait": {look.String()}}}); err != nil {
			return e, nil, err
		}
		if e, err = decode[event](body); err != nil || e.finished() || left == 0 || time.Until(until) <= 0 {
			return e, body, err
		}
		if time.Since(asked) >= look {
			continue
		}
		rest(ctx, min(betweenLooks, time.Until(until))) // it had no place for one who waits, or was stopping
		if ctx.Err() != nil {
			return e, body, context.Cause(ctx)
		}
	}
}
