package main

import (
	"net/http"

	"github.com/spf13/cobra"
)

// newEndpointsReplay makes the command that gives an endpoint a window of past events again.
func newEndpointsReplay(w world) *cobra.Command {
	var f jobFlags
	var states, types []string
	cmd := tenantCommand(w, &cobra.Command{
		Use: "replay ENDPOINT", Short: "Send past events to an endpoint again, and what it never got; a job", Args: exactly("ENDPOINT"),
		Example: "  postrider endpoints replay shop --tenant acme --since 2h --state failed,missing --dry-run",
	}, func(cmd *cobra.Command, r *remote, tenant string, args []string) error {
		fields := map[string]any{}
		for _, flag := range []string{"since", "until"} {
			at, err := w.when(cmd, flag, ago)
			if err != nil {
				return err
			}
			setText(fields, flag, at)
		}
		if len(states) > 0 {
			fields["states"] = states
		}
		if len(types) > 0 {
			fields["types"] = types
		}
		return f.start(cmd.Context(), r, endpointPath(tenant, args[0], "replay"), fields)
	})
	windowFlags(cmd)
	cmd.Flags().StringSliceVar(&states, "state", nil, "how the deliveries ended: succeeded, failed, cancelled, missing (never made); default all")
	cmd.Flags().StringSliceVar(&types, "type", nil, "only these `types` or patterns such as order.*")
	judge(cmd, "state", among("succeeded", "failed", "cancelled", "missing"))
	require(cmd, "since")
	f.flags(cmd)
	return cmd
}

// newEventsReplay makes the command that sends one event again.
func newEventsReplay(w world) *cobra.Command {
	var f jobFlags
	cmd := tenantCommand(w, &cobra.Command{
		Use: "replay EVENT", Short: "Send an event to its endpoints again; a job", Args: exactly("EVENT"),
	}, func(cmd *cobra.Command, r *remote, tenant string, args []string) error {
		return f.start(cmd.Context(), r, eventPath(tenant, args[0], "replay"), map[string]any{})
	})
	f.flags(cmd)
	return cmd
}

func newEventsCancel(w world) *cobra.Command {
	return tenantCommand(w, &cobra.Command{
		Use: "cancel EVENT", Short: "Cancel what is not delivered of an event", Args: exactly("EVENT"),
	}, func(cmd *cobra.Command, r *remote, tenant string, args []string) error {
		return r.fetch(cmd.Context(), call{method: http.MethodPost, path: eventPath(tenant, args[0], "cancel")}, w.showEvent)
	})
}

func newDeliveriesCancel(w world) *cobra.Command {
	cmd, r := remoteCommand(w, &cobra.Command{Use: "cancel DELIVERY", Short: "Cancel a delivery", Args: exactly("DELIVERY")})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		what := call{method: http.MethodPost, path: []string{"deliveries", args[0], "cancel"}}
		return r.fetch(cmd.Context(), what, w.sayState)
	}
	return cmd
}
