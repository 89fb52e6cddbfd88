package main

import (
	"errors"
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
	var asJSON bool
	cmd := &cobra.Command{
		Use: "check", Short: "Say whether `postrider serve` could start with this configuration", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := w.loadServer(cmd, config.NeedDatabase, config.NeedSecrets)
			switch {
			case asJSON:
				return errors.Join(w.printFaults(err), err)
			case err == nil:
				fmt.Fprintln(w.stdout, "the configuration is sound")
			}
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	configFlags(cmd)
	return cmd
}

// printFaults writes for machines what is wrong with the configuration; people are told on the
// standard error as well, which alone has what kept it from being read at all.
func (w world) printFaults(err error) error {
	type row struct {
		Key    string `json:"key"`
		Detail string `json:"detail"`
		From   string `json:"from,omitempty"` // "" for nowhere
	}
	faults := []row{}
	var bad *config.Error
	if errors.As(err, &bad) {
		for _, f := range bad.Faults {
			faults = append(faults, row(f))
		}
	}
	return printJSON(w.stdout, map[string]any{"sound": err == nil, "faults": faults})
}
