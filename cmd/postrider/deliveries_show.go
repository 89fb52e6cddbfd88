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
)

// attempt is what of an attempt is shown to people.
type attempt struct {
	Number    int       `json:"attempt"`
	StartedAt time.Time `json:"started_at"`
	URL       string    `json:"url"`
	Status    *int      `json:"status"`
	Outcome   string    `json:"outcome"`
	Error     *string   `json:"error"`
	Detail    *string   `json:"error_detail"` // none for a key that is bound to a tenant
	Body      string    `json:"response_body"`
	Encoding  string    `json:"response_body_encoding"`
	Timings   struct {
		Total *float64 `json:"total_ms"`
	} `json:"timings"`
	Address *string `json:"address"`
}

// shownAttempts is how many attempts are shown with a delivery; a schedule has 50 delays at most, more come by hand.
const shownAttempts = 250

// maxShownDetail bounds the technical error of the last attempt, in characters.
const maxShownDetail = 400

func newDeliveriesShow(w world) *cobra.Command {
	cmd, r := remoteCommand(w, &cobra.Command{
		Use: "show DELIVERY", Short: "Show a delivery and its attempts", Args: exactly("DELIVERY"),
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := r.client()
		if err != nil {
			return err
		}
		body, err := c.do(cmd.Context(), call{method: http.MethodGet, path: []string{"deliveries", args[0]}})
		if err != nil {
			return err
		}
		attempts, err := c.list(cmd.Context(), []string{"deliveries", args[0], "attempts"}, url.Values{}, shownAttempts)
		if err != nil {
			return err
		}
		if r.json {
			return w.printDelivery(body, attempts)
		}
		return w.showDelivery(body, attempts)
	}
	return cmd
}

// printDelivery writes the delivery's own object with its attempts in it.
func (w world) printDelivery(body json.RawMessage, attempts page) error {
	fields, err := decode[map[string]json.RawMessage](body)
	if err != nil {
		return err
	}
	list, err := json.Marshal(attempts.Data)
	if err != nil {
		return err
	}
	fields["attempt_list"] = list
	return printJSON(w.stdout, fields)
}

func (w world) showDelivery(body json.RawMessage, attempts page) error {
	d, err := decode[delivery](body)
	if err != nil {
		return err
	}
	list, err := rows[attempt](attempts)
	if err != nil {
		return err
	}
	t := &table{}
	t.add("id", d.ID)
	t.add("state", d.stateWords())
	t.add("event", d.EventID)
	t.add("type", text(d.EventType))
	t.add("tenant", d.TenantID)
	t.add("endpoint", d.EndpointID)
	t.add("attempts", strconv.Itoa(d.Attempts))
	t.add("next attempt", w.clock(d.NextAttemptAt))
	t.add("created", w.clock(&d.CreatedAt))
	t.add("finished", w.clock(d.FinishedAt))
	t.print(w.stdout)
	if len(list) == 0 {
		return nil
	}
	w.blankLine()
	w.attemptTable(list).print(w.stdout)
	if newest := text(list[0].Detail); newest != "" {
		w.blankLine()
		t := &table{}
		t.add("last error in full", clip(newest, maxShownDetail))
		t.print(w.stdout)
	}
	return nil
}

func (w world) attemptTable(list []attempt) *table {
	t := newTable("ATTEMPT", "STARTED", "OUTCOME", "STATUS", "TOOK", "ADDRESS", "WHAT WENT WRONG, OR THE ANSWER")
	for _, a := range list {
		status, took, said := "", "", text(a.Error)
		if a.Status != nil {
			status = strconv.Itoa(*a.Status)
		}
		if a.Timings.Total != nil {
			took = fmt.Sprintf("%.0f ms", *a.Timings.Total)
		}
		if said == "" && a.Encoding == "utf-8" {
			said = strings.Join(strings.Fields(a.Body), " ")
		}
		t.add(strconv.Itoa(a.Number), w.clock(&a.StartedAt), a.Outcome, status, took, text(a.Address), clip(said, 80))
	}
	return t
}

func (w world) blankLine() { fmt.Fprintln(w.stdout) }
