package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/config"
)

func newConfig(w world) *cobra.Command {
	return group("config", "Show and check the configuration", newConfigPrint(w), newConfigCheck(w))
}

func newConfigPrint(w world) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "print", Short: "Print each key's value and where it comes from; secrets are left out", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := w.load(cmd)
			if err != nil {
				return err
			}
			return cfg.Print(w.stdout, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	configFlags(cmd)
	return cmd
}

func newConfigCheck(w world) *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", Short: "Say whether `postrider serve` could start with this configuration", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := w.load(cmd, config.NeedDatabase, config.NeedSecrets); err != nil {
				return err
			}
			fmt.Fprintln(w.stdout, "the configuration is sound")
			return nil
		},
	}
	configFlags(cmd)
	return cmd
}
