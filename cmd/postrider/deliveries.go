package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/dispatcher"
)

// delivery is what of a delivery is shown to people.
type delivery struct {
	ID            string     `json:"id"`
	TenantID      string     `json:"tenant_id"`
	EventID       string     `json:"event_id"`
	EventType     *string    `json:"event_type"`
	EndpointID    string     `json:"endpoint_id"`
	State         string     `json:"state"`
	Reason        *string    `json:"reason"`
	Attempts      int        `json:"attempts"`
	NextAttemptAt *time.Time `json:"next_attempt_at"`
	LastOutcome   *string    `json:"last_outcome"`
	LastStatus    *int       `json:"last_status"`
	CreatedAt     time.Time  `json:"created_at"`
	FinishedAt    *time.Time `json:"finished_at"`
}

func newDeliveries(w world) *cobra.Command {
	return group("deliveries", "Review deliveries and try them again",
		newDeliveriesList(w), newDeliveriesShow(w), newDeliveriesRetry(w), newDeliveriesCancel(w))
}

func newDeliveriesList(w world) *cobra.Command {
	var l listing
	var states, outcomes []string
	stateNames, outcomeNames := words(dispatcher.States()), words(dispatcher.Outcomes())
	var tenant, endpoint, event, eventType, q string
	cmd, r := remoteCommand(w, &cobra.Command{
		Use: "list", Short: "List deliveries, newest first", Args: exactly(),
		Example: "  postrider deliveries list --state failed --since 1d",
	})
	flags := cmd.Flags()
	flags.StringSliceVar(&states, "state", nil, "only these: "+strings.Join(stateNames, ", "))
	flags.StringSliceVar(&outcomes, "outcome", nil, "of the last attempt: "+strings.Join(outcomeNames, ", "))
	flags.StringVar(&tenant, "tenant", "", "the `tenant`'s id or uid")
	flags.StringVar(&endpoint, "endpoint", "", "the `endpoint`'s id, or with --tenant its uid")
	flags.StringVar(&event, "event", "", "the `event`'s id")
	flags.StringVar(&eventType, "event-type", "", "the event's `type`")
	flags.StringVar(&q, "q", "", "an id, the beginning of an event's uid or type, or a part of the payload")
	judge(cmd, "state", among(stateNames...))
	judge(cmd, "outcome", among(outcomeNames...))
	windowFlags(cmd)
	l.flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		for name, value := range map[string]string{
			"state": strings.Join(states, ","), "outcome": strings.Join(outcomes, ","), "tenant": tenant,
			"endpoint": endpoint, "event": event, "event_type": eventType, "q": q,
		} {
			setQuery(query, name, value)
		}
		if err := w.setWindow(cmd, query); err != nil {
			return err
		}
		return r.show(cmd, l, []string{"deliveries"}, query, func(p page) error {
			list, err := rows[delivery](p)
			if err != nil {
				return err
			}
			w.deliveryTable(list).list(w.stdout, "deliveries")
			return nil
		})
	}
	return cmd
}

// setQuery puts a parameter into a query if it has a value.
func setQuery(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

func windowFlags(cmd *cobra.Command) {
	cmd.Flags().String("since", "", "made then or later: a `time`, or a span such as 2h for two hours ago")
	cmd.Flags().String("until", "", "made before: a `time`, or a span such as 2h")
}

func (w world) setWindow(cmd *cobra.Command, query url.Values) error {
	for _, flag := range []string{"since", "until"} {
		at, err := w.when(cmd, flag, ago)
		if err != nil {
			return err
		}
		setQuery(query, flag, at)
	}
	return nil
}

func (w world) deliveryTable(list []delivery) *table {
	t := newTable("ID", "STATE", "TYPE", "ATTEMPTS", "LAST", "NEXT", "CREATED", "ENDPOINT", "EVENT")
	for _, d := range list {
		t.add(d.ID, d.stateWords(), text(d.EventType), strconv.Itoa(d.Attempts), d.lastWords(), w.clock(d.NextAttemptAt),
			w.clock(&d.CreatedAt), d.EndpointID, d.EventID)
	}
	return t
}

// stateWords is the state with its reason.
func (d delivery) stateWords() string {
	if d.Reason != nil {
		return d.State + " (" + *d.Reason + ")"
	}
	return d.State
}

// lastWords is how the last attempt ended.
func (d delivery) lastWords() string {
	words := text(d.LastOutcome)
	if d.LastStatus != nil {
		words += " " + strconv.Itoa(*d.LastStatus)
	}
	return words
}

func newDeliveriesRetry(w world) *cobra.Command {
	cmd, r := remoteCommand(w, &cobra.Command{
		Use: "retry DELIVERY", Short: "Try a delivery again at once, with its schedule started afresh", Args: exactly("DELIVERY"),
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		what := call{method: http.MethodPost, path: []string{"deliveries", args[0], "retry"}}
		return r.fetch(cmd.Context(), what, w.sayState)
	}
	return cmd
}

// sayState says in a line what a delivery has come to.
func (w world) sayState(body json.RawMessage) error {
	d, err := decode[delivery](body)
	if err != nil {
		return err
	}
	fmt.Fprintln(w.stdout, printable(d.ID+" "+d.stateWords()))
	return nil
}
