package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// processLine is what of a process is shown to people.
type processLine struct {
	Roles              []string   `json:"roles"`
	State              string     `json:"state"`
	Host               string     `json:"host"`
	PID                int        `json:"pid"`
	Version            string     `json:"version"`
	StartedAt          time.Time  `json:"started_at"`
	SeenAt             time.Time  `json:"seen_at"`
	DispatcherWorkedAt *time.Time `json:"dispatcher_worked_at"`
	SchedulerWorkedAt  *time.Time `json:"scheduler_worked_at"`
}

type processList struct {
	Data    []processLine `json:"data"`
	Unknown int           `json:"unknown"`
}

func newProcesses(w world) *cobra.Command {
	cmd, r := remoteCommand(w, &cobra.Command{
		Use: "processes", Short: "Show which processes there are, and whether they work", Args: exactly(),
		Long: "Show which processes there are, and whether they work. SEEN is when a process said last that it lives, which it does each\n" +
			"10 s, and WORKED when its dispatcher or scheduler went round last. One whose part has not gone round for watch.dead_after is\n" +
			"stuck; one that was not heard of for as long is dead, and is shown for five minutes. The key needs the scope admin.",
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return r.fetch(cmd.Context(), call{path: []string{"processes"}}, w.showProcesses)
	}
	return cmd
}

func (w world) showProcesses(body json.RawMessage) error {
	all, err := decode[processList](body)
	if err != nil {
		return err
	}
	t := newTable("HOST", "PID", "ROLES", "STATE", "VERSION", "STARTED", "SEEN", "WORKED")
	for _, p := range all.Data {
		t.add(p.Host, strconv.Itoa(p.PID), strings.Join(p.Roles, ","), p.State, p.Version, w.clock(&p.StartedAt), w.clock(&p.SeenAt), w.clock(p.worked()))
	}
	t.list(w.stdout, "processes")
	if all.Unknown > 0 {
		fmt.Fprintf(w.stdout, "and %d of an older version, which do not say what they are\n", all.Unknown)
	}
	return nil
}

// worked is when the part that is furthest behind got on last; nil: nothing of this process has to.
func (p processLine) worked() *time.Time {
	var all []time.Time
	for _, at := range []*time.Time{p.DispatcherWorkedAt, p.SchedulerWorkedAt} {
		if at != nil {
			all = append(all, *at)
		}
	}
	if len(all) == 0 {
		return nil
	}
	first := slices.MinFunc(all, time.Time.Compare)
	return &first
}
