package main

import (
	"context"
	"net"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/config"
)

func newServe(w world) *cobra.Command {
	var names string
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the server: the API, the dispatcher and the scheduler, or some of them", Args: exactly(),
		Long: "Run the server on the PostgreSQL of database.url. Any number of processes may share one database, each with all\n" +
			"roles or with some: api takes requests, dispatcher sends deliveries, scheduler keeps house. At least one process with each\n" +
			"role has to run. The schema is not brought up to date unless database.migrate_on_start says so: `postrider migrate up`.\n\n" +
			"SIGTERM stops it in order: give it a minute and a half. `postrider health` asks whether it is ready. Under systemd it is a unit of\n" +
			"Type=notify and has a watchdog. Units, manifests and images are in deploy/, docs/installing.md says how to use them.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := parseRoles(names)
			if err != nil {
				return usagef(cmd, "--roles: %v", err)
			}
			cfg, err := w.loadServer(cmd, config.NeedDatabase, config.NeedSecrets)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), w, cfg, r)
		},
	}
	cmd.Flags().StringVar(&names, "roles", allRoles, "what this process does, with commas between")
	configFlags(cmd)
	return cmd
}

func serve(ctx context.Context, w world, cfg config.Config, r roles) error {
	log := newLogger(w.stderr, cfg.Log)
	log.Info().Str("version", buildVersion()).Str("roles", r.String()).Msg("starting")
	a, err := wire(ctx, cfg, r, func(ctx context.Context) (net.Listener, error) { return listen(ctx, cfg.HTTP.Addr) }, log)
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // asked to stop before it had begun
		}
		return err
	}
	a.manager = w.managerOf(log, "version "+buildVersion()+" runs as "+r.String())
	return a.run(ctx)
}
