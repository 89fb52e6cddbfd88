package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/config"
	"github.com/postrider/postrider/internal/upkeep"
)

func keepOf(c config.Retention) upkeep.Keep {
	return upkeep.Keep{Events: c.Events, Attempts: c.Attempts}
}

// retentionRun is what the command prints: what would be done, or was.
type retentionRun struct {
	DryRun     bool              `json:"dry_run"`
	Partitions []upkeep.Prospect `json:"partitions,omitempty"` // of a dry run
	Dealt      int64             `json:"dealt_with"`           // partitions, by a run
}

func newRetention(w world) *cobra.Command {
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use: "retention", Short: "Drop history that is older than it is to be kept, now; or say what that would be", Args: exactly(),
		Long: "Drop history that is older than retention.events, retention.attempts and tenants' own times, now. The role scheduler does\n" +
			"so each hour; this is the same, for when you will not wait, and lends itself the job from it. With --dry-run it counts what\n" +
			"would go and what would stay, and why, and changes nothing. ROWS and STAYS of a day of which nothing goes are PostgreSQL's own\n" +
			"estimate, 0 until it has counted. It works on the database itself, also while servers run on it.",
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would go")
	jsonFlag(cmd, &asJSON)
	configFlags(cmd, "database.url", "database.pooler", "retention.events", "retention.attempts")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		cfg, err := w.load(cmd, config.NeedDatabase)
		if err != nil {
			return err
		}
		c := cfg.Database
		c.MaxConns, c.MigrateOnStart = 4, false
		db, err := openDatabase(cmd.Context(), c, nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.close()) }()
		log := zerolog.Nop()
		if !dryRun {
			log = newLogger(w.stderr, cfg.Log)
		}
		run, err := w.retention(cmd.Context(), upkeep.NewRetention(db.pool, db.clock.Now, log, keepOf(cfg.Retention)), dryRun)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(w.stdout, run)
		}
		w.showRetention(run)
		return nil
	}
	return cmd
}

func (w world) retention(ctx context.Context, r *upkeep.Retention, dryRun bool) (run retentionRun, err error) {
	run.DryRun = dryRun
	if dryRun {
		run.Partitions, err = r.Plan(ctx)
		return run, err
	}
	run.Dealt, err = r.RunNow(ctx, func() {
		fmt.Fprintln(w.stderr, "waiting for the scheduler to lend the job, which it does between two runs")
	})
	return run, err
}

func (w world) showRetention(run retentionRun) {
	if !run.DryRun {
		fmt.Fprintf(w.stdout, "%d partitions were dropped, or have less in them now\n", run.Dealt)
		return
	}
	t := newTable("TABLE", "DAY", "ROWS", "SIZE", "WOULD", "GOES", "STAYS", "WHY")
	for _, p := range run.Partitions {
		day := p.Day
		if day == "" {
			day = "(none)"
		}
		t.add(p.Table, day, strconv.FormatInt(p.Rows, 10), sizeText(p.Bytes), p.Action, strconv.FormatInt(p.Goes, 10),
			strconv.FormatInt(p.Stays, 10), p.Why)
	}
	t.list(w.stdout, "partitions")
}

// sizeText is a number of bytes for people.
func sizeText(bytes int64) string {
	const step = 1024
	if bytes < step {
		return strconv.FormatInt(bytes, 10) + " B"
	}
	value, unit := float64(bytes)/step, "KiB"
	for _, next := range []string{"MiB", "GiB", "TiB"} {
		if value < step {
			break
		}
		value, unit = value/step, next
	}
	return strconv.FormatFloat(value, 'f', 1, 64) + " " + unit
}
