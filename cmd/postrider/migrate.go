package main

import (
	"context"
	"fmt"
	"path"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/config"
	"github.com/postrider/postrider/migrations"
)

func newMigrate(w world) *cobra.Command {
	return group("migrate", "Bring the database's schema up to date, or back",
		newMigration(w, "up", "Apply what the database lacks", migrations.Up),
		newMigration(w, "status", "Show which migrations the database has", migrations.List),
		newMigration(w, "down", "Take the newest migration back; what it added to the database is lost", migrations.Down),
		newDistribute(w))
}

// newMigration makes one of the three commands: they differ in the act, and all show the state afterwards.
func newMigration(w world, use, short string, act func(ctx context.Context, url string) ([]migrations.Status, error)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: use, Short: short, Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := w.load(cmd, config.NeedSession)
			if err != nil {
				return err
			}
			all, err := act(cmd.Context(), cfg.Database.SessionURL())
			if err != nil {
				return err
			}
			return w.showMigrations(all, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	configFlags(cmd, "database.url", "database.direct_url", "database.pooler")
	return cmd
}

func (w world) showMigrations(all []migrations.Status, asJSON bool) error {
	type row struct {
		Version int64  `json:"version"`
		Name    string `json:"name"`
		Applied bool   `json:"applied"`
	}
	rows := make([]row, 0, len(all))
	t := newTable("VERSION", "NAME", "STATE")
	for _, m := range all {
		state := "pending"
		if m.Applied {
			state = "applied"
		}
		rows = append(rows, row{m.Version, path.Base(m.Name), m.Applied})
		t.add(strconv.FormatInt(m.Version, 10), path.Base(m.Name), state)
	}
	if asJSON {
		return printJSON(w.stdout, rows)
	}
	t.list(w.stdout, "migrations")
	return nil
}

func newDistribute(w world) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "distribute", Short: "Spread the tables over a Citus cluster", Args: exactly(),
		Long: "Spread the tables over the workers of a Citus cluster, by their bucket. database.url, or database.direct_url, leads to its\n" +
			"coordinator. What is in its place stays there: run it again after a migration that made a table. Nothing else needs it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := w.load(cmd, config.NeedSession)
			if err != nil {
				return err
			}
			steps, err := migrations.Distribute(cmd.Context(), cfg.Database.SessionURL(), dry)
			if err != nil {
				return err
			}
			for _, sql := range steps {
				if _, err := fmt.Fprintln(w.stdout, sql+";"); err != nil {
					return err
				}
			}
			if len(steps) == 0 {
				w.say("every table is in its place")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the statements and run none")
	configFlags(cmd, "database.url", "database.direct_url", "database.pooler")
	return cmd
}
