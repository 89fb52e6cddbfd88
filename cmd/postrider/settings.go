package main

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/postrider/postrider/config"
	"github.com/postrider/postrider/internal/alert"
)

// configFlags adds --config and the flag of each key, or of the named keys alone.
func configFlags(cmd *cobra.Command, only ...string) {
	cmd.Flags().String("config", "", "configuration `file` (default "+config.DefaultFile+", if it is there)")
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddFlags(all)
	if len(only) == 0 {
		cmd.Flags().AddFlagSet(all)
		return
	}
	for _, name := range only {
		cmd.Flags().AddFlag(all.Lookup(name))
	}
}

// load reads the configuration that the command runs with. needs are what it cannot do without; nil checks no value that
// the command may not need.
func (w world) load(cmd *cobra.Command, needs ...config.Need) (config.Config, error) {
	file, err := cmd.Flags().GetString("config")
	if err != nil {
		return config.Config{}, err
	}
	cfg, err := config.Load(cmd.Flags(), file, w.environ)
	if err != nil {
		return config.Config{}, err
	}
	return cfg, cfg.Validate(needs...)
}

// loadServer reads the configuration of a server. What config cannot judge, because it does not know the services that
// alerts go to, is judged here: it shows among all other faults, and before anything is started.
func (w world) loadServer(cmd *cobra.Command, needs ...config.Need) (config.Config, error) {
	const key = "alerts.urls"
	cfg, err := w.load(cmd, needs...)
	bad := &config.Error{}
	if err != nil && !errors.As(err, &bad) {
		return cfg, err
	}
	if slices.ContainsFunc(bad.Faults, func(f config.Fault) bool { return f.Key == key }) {
		return cfg, err
	}
	if wrong := alert.CheckURLs(cfg.Alerts.URLs); wrong != nil {
		return cfg, &config.Error{Faults: append(slices.Clone(bad.Faults), cfg.Fault(key, wrong.Error()))}
	}
	return cfg, err
}
