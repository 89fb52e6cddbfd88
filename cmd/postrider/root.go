package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// newRoot makes the tree of commands.
func newRoot(w world) *cobra.Command {
	root := group("postrider", "Reliable webhooks on PostgreSQL",
		newDev(w), newServe(w), newHealth(w), newMigrate(w), newConfig(w), newSecrets(w), newRetention(w), newKeys(w), newAuditLog(w),
		newTenants(w), newEndpoints(w), newEventTypes(w), newPortal(w),
		newEvents(w), newSchedules(w), newIngest(w), newDeliveries(w), newJobs(w), newProcesses(w),
		newListen(w), newTrigger(w), newVerify(w), newVersion(w))
	root.Long = "Postrider takes events from your services and delivers them to your customers' endpoints, signed and retried.\n" +
		"`postrider dev` shows it all on your machine, with nothing to set up."
	root.SilenceErrors, root.SilenceUsage = true, true // report prints errors, in one line
	root.SetIn(w.stdin)
	root.SetOut(w.stdout)
	root.SetErr(w.stderr)
	root.SetFlagErrorFunc(flagFault)
	root.SetHelpCommand(newHelp())
	root.Version = thisBuild().String() // makes --version
	root.SetVersionTemplate("{{.Version}}\n")
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
		return unknownCommand(cmd, args[0])
	}}
	cmd.AddCommand(commands...)
	return cmd
}

func unknownCommand(cmd *cobra.Command, name string) error {
	detail := "unknown command " + quote(name) + " of " + quote(cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if meant := cmd.SuggestionsFor(name); len(meant) > 0 {
		detail += " (did you mean " + strings.Join(meant, " or ") + "?)"
	}
	return usagef(cmd, "%s", detail)
}

// newHelp makes the command `help`. cobra's own is content with commands that do not exist.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]...", Short: "Show what a command does", Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return usagef(cmd, "%v", err)
			}
			if len(rest) > 0 {
				return unknownCommand(about, rest[0])
			}
			about.InitDefaultHelpFlag()
			about.InitDefaultVersionFlag()
			return about.Help()
		},
	}
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
