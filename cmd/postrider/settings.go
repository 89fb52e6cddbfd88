package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/postrider/postrider/config"
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
