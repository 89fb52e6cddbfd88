package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// newRoot makes the tree of commands.
func newRoot(w world) *cobra.Command {
	root := group("postrider", "Reliable webhooks on PostgreSQL",
		newDev(w), newServe(w), newMigrate(w),
		newKeys(w), newTenants(w), newEndpoints(w), newEvents(w), newDeliveries(w),
		newConfig(w), newVersion(w))
	root.Long = "Postrider takes events from your services and delivers them to your customers' endpoints, signed and retried.\n" +
		"`postrider dev` shows it all on your machine, with nothing to set up."
	root.SilenceErrors, root.SilenceUsage = true, true // report prints errors, in one line
	root.SetIn(w.stdin)
	root.SetOut(w.stdout)
	root.SetErr(w.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usagef(cmd, "%v", err) })
	return root
}

// group makes a command that does nothing by itself. Called without one of its own, it shows them.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			cmd.SetOut(cmd.ErrOrStderr())
			_ = cmd.Help() // it writes to the standard error, and there is nowhere to tell that this failed
			return usageError{}
		}
		detail := "unknown command " + quote(args[0]) + " of " + quote(cmd.CommandPath())
		cmd.SuggestionsMinimumDistance = 2
		if meant := cmd.SuggestionsFor(args[0]); len(meant) > 0 {
			detail += ", did you mean " + strings.Join(meant, " or ") + "?"
		}
		return usagef(cmd, "%s", detail)
	}}
	cmd.AddCommand(commands...)
	return cmd
}

// exactly makes a command's arguments those that its usage line names.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usagef(cmd, "%s is missing: %s", names[len(args)], cmd.UseLine())
		}
		if len(args) > len(names) {
			return usagef(cmd, "one argument too many: %s", quote(args[len(names)]))
		}
		return nil
	}
}

// need refuses a command line that lacks a flag which has no default.
func need(cmd *cobra.Command, flags ...string) error {
	var missing []string
	for _, name := range flags {
		if f := cmd.Flag(name); f == nil || f.Value.String() == "" {
			missing = append(missing, "--"+name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return usagef(cmd, "%s is missing", strings.Join(missing, " and "))
}
