package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// temporaryFlags are the fields of the endpoint that `postrider listen` makes.
type temporaryFlags struct {
	eventTypes, schedule []string
	filter, url          string
}

func (t *temporaryFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&t.eventTypes, "event-types", nil, "what the endpoint that is made gets, such as order.paid,order.* (default all)")
	cmd.Flags().StringVar(&t.filter, "filter", "", "which of these, as a CEL `expression` (default all)")
	cmd.Flags().StringSliceVar(&t.schedule, "retry-schedule", nil, "its delays before the retries, such as 1s,1s (default: the server's)")
	cmd.Flags().StringVar(&t.url, "endpoint-url", "", "the `URL` that the server reaches this receiver by (default: that of --addr)")
	judge(cmd, "retry-schedule", span)
	judge(cmd, "endpoint-url", checkTarget)
}

func (t *temporaryFlags) given(cmd *cobra.Command) bool {
	for _, name := range []string{"event-types", "filter", "retry-schedule", "endpoint-url"} {
		if cmd.Flags().Changed(name) {
			return true
		}
	}
	return false
}

// temporaryEndpoint is to be deleted; nil is none.
type temporaryEndpoint struct {
	remote     *remote
	client     *client
	tenant, id string
}

// removeTimeout bounds the calls that go on after a signal, so that a server which does not answer holds up nobody's Ctrl-C.
const removeTimeout = 10 * time.Second

// make makes the endpoint that leads to a URL.
func (t *temporaryFlags) make(ctx context.Context, r *remote, c *client, f listenFlags, at string) (*temporaryEndpoint, error) {
	if t.url != "" {
		at = t.url
	}
	fields := map[string]any{"description": "`postrider listen`, until it ends"}
	if f.pull {
		fields["kind"] = "pull"
	} else {
		fields["url"] = at
	}
	signature := map[string]any{}
	setText(fields, "filter", t.filter)
	setText(signature, "scheme", f.scheme)
	setText(signature, "header", f.header)
	for name, list := range map[string][]string{"event_types": t.eventTypes, "retry_schedule": t.schedule} {
		if len(list) > 0 {
			fields[name] = list
		}
	}
	if len(signature) > 0 {
		fields["signature"] = signature
	}
	return makeTemporary(ctx, r, c, f.tenant, fields)
}

// makeTemporary makes an endpoint. It is not broken off by a signal: there would be an endpoint that nobody knows.
func makeTemporary(ctx context.Context, r *remote, c *client, tenant string, fields map[string]any) (*temporaryEndpoint, error) {
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	making, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	answer, err := c.do(making, call{method: http.MethodPost, path: endpointPath(tenant), body: body})
	if isStatus(err, http.StatusUnprocessableEntity) && fields["url"] != nil {
		return nil, fmt.Errorf("make an endpoint that leads here: %w; a server that may not reach this machine lets --pull fetch", err)
	}
	if err != nil {
		return nil, fmt.Errorf("make an endpoint: %w", err)
	}
	e, err := decode[endpoint](answer)
	if err != nil {
		return nil, err
	}
	if e.ID == "" {
		return nil, errors.New("the server made an endpoint and did not say which")
	}
	r.w.say("made the endpoint %s of %s; it is deleted at the end", e.ID, tenant)
	return &temporaryEndpoint{r, c, tenant, e.ID}, nil
}

// remove deletes the endpoint, also after a signal.
func (t *temporaryEndpoint) remove(ctx context.Context) error {
	if t == nil {
		return nil
	}
	removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	_, err := t.client.do(removing, call{method: http.MethodDelete, path: endpointPath(t.tenant, t.id)})
	switch {
	case isStatus(err, http.StatusNotFound): // somebody else did
	case err != nil:
		return fmt.Errorf("delete the endpoint (`postrider endpoints delete %s --tenant %s` does): %w", t.id, shellQuote(t.tenant), err)
	}
	t.remote.w.say("deleted the endpoint %s", t.id)
	return nil
}
