package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/duration"
)

type triggerFlags struct {
	payloadFlags
	endpoint, timeout string
	wait              bool
}

func newTrigger(w world) *cobra.Command {
	var f triggerFlags
	cmd := tenantCommand(w, &cobra.Command{
		Use: "trigger TYPE", Short: "Send an event of a type with the example of the catalogue", Args: exactly("TYPE"),
		Long: "Send an event of a type, with the example that the catalogue has for it as the payload, to all of a tenant's endpoints that want\n" +
			"it, or to one. With --wait it says what came of it at each endpoint, and exits with 0 if all of them took it.",
		Example: "  postrider trigger order.paid --tenant acme --wait",
	}, func(cmd *cobra.Command, r *remote, tenant string, args []string) error {
		payload, err := f.read(cmd, w.stdin)
		if err != nil {
			return err
		}
		c, err := r.client()
		if err != nil {
			return err
		}
		if payload == nil {
			if payload, err = exampleOf(cmd.Context(), c, args[0]); err != nil {
				return err
			}
		}
		return f.send(cmd.Context(), r, c, tenant, args[0], payload)
	})
	f.flags(cmd)
	cmd.Flag("data").Usage += " (default: the catalogue's example)"
	cmd.Flags().StringVar(&f.endpoint, "endpoint", "", "only to this `endpoint`, whichever types it wants")
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait until all endpoints have it, and say what came of it")
	cmd.Flags().StringVar(&f.timeout, "timeout", "1m", "how long to wait at most")
	judge(cmd, "timeout", positive)
	cmd.Flag("timeout").DefValue = "1m"
	return cmd
}

// exampleOf gives the example of the catalogue.
func exampleOf(ctx context.Context, c *client, name string) ([]byte, error) {
	howTo := fmt.Sprintf("give a payload by --data or --file, or the catalogue an example by `postrider event-types put %s --example FILE`", shellQuote(name))
	body, err := c.do(ctx, call{method: http.MethodGet, path: eventTypePath(name)})
	if isStatus(err, http.StatusNotFound) {
		return nil, fmt.Errorf("%s is not in the catalogue: %s", quote(name), howTo)
	}
	if err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	t, err := decode[eventType](body)
	if err != nil {
		return nil, err
	}
	if given(t.Example) == "" {
		return nil, fmt.Errorf("the catalogue has no example for %s: %s", quote(name), howTo)
	}
	return t.Example, nil
}

func (f *triggerFlags) send(ctx context.Context, r *remote, c *client, tenant, eventType string, payload []byte) error {
	what := call{method: http.MethodPost, path: eventPath(tenant)}
	if f.endpoint != "" {
		what.path = endpointPath(tenant, f.endpoint, "test")
	}
	var err error
	if what.body, err = envelope(map[string]any{"type": eventType}, payload); err != nil {
		return err
	}
	body, err := c.do(ctx, what)
	if err != nil {
		return err
	}
	if !f.wait {
		if r.json {
			return printJSON(r.w.stdout, body)
		}
		return r.w.showReceipt(body)
	}
	sent, err := decode[receipt](body)
	if err != nil {
		return err
	}
	if !r.json {
		if err := r.w.showReceipt(body); err != nil {
			return err
		}
	}
	patience, _ := duration.Parse(f.timeout) // it was judged
	return (&vigil{remote: r, client: c, tenant: tenant, event: sent.ID, told: map[string]string{}}).keep(ctx, patience)
}

// vigil watches what becomes of an event.
type vigil struct {
	*remote
	client        *client
	tenant, event string
	told          map[string]string // how far what was said of each delivery is
	last          json.RawMessage
}

// How often an event is looked at: quickly at first, since most are through in a moment. The API's ?wait= answers at the end alone,
// and not at all while something is held; here each attempt is to be told as it comes.
const (
	firstLook = 50 * time.Millisecond
	slowLook  = time.Second
)

// keep looks until nothing more is to come, or patience is over.
func (v *vigil) keep(ctx context.Context, patience time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := firstLook; ; pause = min(2*pause, slowLook) {
		e, err := v.look(ctx)
		if err != nil {
			return err
		}
		if settled(e) {
			return v.end(e)
		}
		rest(waiting, pause)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case waiting.Err() != nil:
			return errors.Join(v.printLast(), fmt.Errorf("not all of it is through after %s; `postrider events show %s --tenant %s` shows it",
				duration.Format(patience), v.event, shellQuote(v.tenant)))
		}
	}
}

// look reads the event and says what is new of its deliveries.
func (v *vigil) look(ctx context.Context) (event, error) {
	body, err := v.client.do(ctx, call{method: http.MethodGet, path: eventPath(v.tenant, v.event)})
	if err != nil {
		return event{}, err
	}
	v.last = body
	e, err := decode[event](body)
	if err != nil || v.json {
		return e, err
	}
	for _, d := range e.Deliveries {
		if line := v.news(d); line != "" {
			fmt.Fprintln(v.w.stdout, printable(line))
		}
	}
	return e, nil
}

// news says what is new of a delivery since it was last said: another attempt, or the end.
func (v *vigil) news(d delivery) (line string) {
	over := ended(d)
	if !over && (d.Attempts == 0 || d.State == dispatcher.InFlight.String()) {
		return ""
	}
	known := fmt.Sprint(d.Attempts, over)
	if v.told[d.ID] == known {
		return ""
	}
	v.told[d.ID] = known
	line = d.EndpointID + " " + d.ID + ": "
	if d.Attempts > 0 {
		line += fmt.Sprintf("attempt %d %s; ", d.Attempts, d.lastWords())
	}
	switch {
	case over:
		line += d.stateWords()
	case d.NextAttemptAt != nil:
		line += "to be tried again " + relative(d.NextAttemptAt.Sub(v.w.now()).Round(time.Second))
	default:
		line += "to be tried again"
	}
	return line
}

// ended says whether nothing more happens to a delivery by itself.
func ended(d delivery) bool {
	switch d.State {
	case dispatcher.StateSucceeded.String(), dispatcher.StateFailed.String(), dispatcher.StateCancelled.String(), dispatcher.Held.String():
		return true
	}
	return false
}

// settled says whether nothing more is to come. The event's own status is read a moment apart from its deliveries, so both
// have to say so; but what is held keeps it from an end.
func settled(e event) bool {
	held := false
	for _, d := range e.Deliveries {
		if !ended(d) {
			return false
		}
		held = held || d.State == dispatcher.Held.String()
	}
	return held || e.finished()
}

// end says what came of the whole, for the exit code too.
func (v *vigil) end(e event) error {
	if err := v.printLast(); err != nil {
		return err
	}
	if !v.json {
		for _, s := range e.Skipped {
			fmt.Fprintln(v.w.stdout, printable(s.EndpointID+": skipped, "+strings.TrimSuffix(s.Reason+": "+s.Detail, ": ")))
		}
	}
	if len(e.Deliveries) == 0 {
		return errors.New("no endpoint of the tenant gets it")
	}
	failed := 0
	for _, d := range e.Deliveries {
		if d.State != dispatcher.StateSucceeded.String() {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d endpoints did not take it", failed, len(e.Deliveries))
	}
	return nil
}

func (v *vigil) printLast() error {
	if !v.json {
		return nil
	}
	return printJSON(v.w.stdout, v.last)
}
