package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// job is what of a job is shown to people; a dry run is one without an id.
type job struct {
	ID             string     `json:"id"`
	Kind           string     `json:"kind"`
	State          string     `json:"state"`
	Matched        int64      `json:"matched"`
	MatchedAtLeast bool       `json:"matched_at_least"`
	Done           int64      `json:"done"`
	Skipped        int64      `json:"skipped"`
	Error          *string    `json:"error"`
	CreatedBy      string     `json:"created_by"`
	CreatedAt      time.Time  `json:"created_at"`
	FinishedAt     *time.Time `json:"finished_at"`
}

func newJobs(w world) *cobra.Command {
	return group("jobs", "See how far replays and other work on many deliveries are, and stop it",
		newJobsList(w), newJobsAct(w, "show", "Show a job and how far it is", http.MethodGet),
		newJobsAct(w, "cancel", "Stop a job; what it has done stays done", http.MethodPost, "cancel"))
}

func newJobsList(w world) *cobra.Command {
	var l listing
	var tenant string
	cmd, r := remoteCommand(w, &cobra.Command{Use: "list", Short: "List jobs, newest first", Args: exactly()})
	cmd.Flags().StringVar(&tenant, "tenant", "", "only this `tenant`'s (id or uid)")
	l.flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		setQuery(query, "tenant", tenant)
		return r.show(cmd, l, []string{"jobs"}, query, func(p page) error {
			list, err := rows[job](p)
			if err != nil {
				return err
			}
			t := newTable("ID", "KIND", "STATE", "DONE", "SKIPPED", "MATCHED", "MADE BY", "CREATED")
			for _, j := range list {
				t.add(j.ID, j.Kind, j.State, strconv.FormatInt(j.Done, 10), strconv.FormatInt(j.Skipped, 10), j.matched(), j.CreatedBy, w.clock(&j.CreatedAt))
			}
			t.list(w.stdout, "jobs")
			return nil
		})
	}
	return cmd
}

func newJobsAct(w world, name, short, method string, path ...string) *cobra.Command {
	cmd, r := remoteCommand(w, &cobra.Command{Use: name + " JOB", Short: short, Args: exactly("JOB")})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return r.fetch(cmd.Context(), call{method: method, path: append([]string{"jobs", args[0]}, path...)}, w.showJob)
	}
	return cmd
}

func (w world) showJob(body json.RawMessage) error {
	j, err := decode[job](body)
	if err != nil {
		return err
	}
	fmt.Fprintln(w.stdout, printable(j.line()))
	return nil
}

// line is how far a job is.
func (j job) line() string {
	if j.ID == "" {
		return fmt.Sprintf("%s: %s would go", j.Kind, j.matched())
	}
	words := fmt.Sprintf("%s %s: %s, %d of %s", j.ID, j.Kind, j.State, j.Done, j.matched())
	if j.Skipped > 0 {
		words += fmt.Sprintf(", %d skipped", j.Skipped)
	}
	if j.Error != nil {
		words += ": " + *j.Error
	}
	return words
}

func (j job) matched() string {
	if j.MatchedAtLeast {
		return strconv.FormatInt(j.Matched, 10) + " or more"
	}
	return strconv.FormatInt(j.Matched, 10)
}

// jobFlags are those of a command that makes a job.
type jobFlags struct{ dryRun, wait bool }

func (f *jobFlags) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only say how many it would be")
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait for its end; exit code 1 unless it succeeded")
}

// jobPause is how often a job is looked at that is waited for.
const jobPause = time.Second

// start makes a job, or says how many it would be, and waits for its end if that is wished for.
func (f *jobFlags) start(ctx context.Context, r *remote, path []string, fields map[string]any) error {
	if f.dryRun {
		fields["dry_run"] = true
	}
	body, err := envelope(fields, nil)
	if err != nil {
		return err
	}
	c, err := r.client()
	if err != nil {
		return err
	}
	answer, err := c.do(ctx, call{method: http.MethodPost, path: path, body: body})
	if err != nil {
		return err
	}
	var ended error
	if f.wait && !f.dryRun {
		if answer, ended = awaitJob(ctx, c, answer); answer == nil {
			return ended
		}
	}
	if r.json {
		return errors.Join(printJSON(r.w.stdout, answer), ended)
	}
	return errors.Join(r.w.showJob(answer), ended)
}

// awaitJob gives a job as it is at its end. An error beside it says that it did not succeed.
func awaitJob(ctx context.Context, c *client, answer json.RawMessage) (json.RawMessage, error) {
	for {
		j, err := decode[job](answer)
		switch {
		case err != nil:
			return nil, err
		case j.State == "succeeded":
			return answer, nil
		case j.FinishedAt != nil:
			return answer, fmt.Errorf("the job is %s", j.State)
		}
		pause := time.NewTimer(jobPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, fmt.Errorf("%s goes on without us: %w", j.ID, context.Cause(ctx))
		}
		if answer, err = c.do(ctx, call{method: http.MethodGet, path: []string{"jobs", j.ID}}); err != nil {
			return nil, err
		}
	}
}
