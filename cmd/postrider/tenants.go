package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/internal/duration"
)

// tenant is what of a tenant is shown to people.
type tenant struct {
	ID           string  `json:"id"`
	UID          *string `json:"uid"`
	Name         string  `json:"name"`
	ContactEmail *string `json:"contact_email"`
	Retention    struct {
		Events   *string `json:"events"`
		Attempts *string `json:"attempts"`
	} `json:"retention"`
	CreatedAt time.Time `json:"created_at"`
}

func newTenants(w world) *cobra.Command {
	return group("tenants", "Make, change, list and erase tenants", newTenantsCreate(w), newTenantsUpdate(w), newTenantsList(w), newTenantsErase(w))
}

func newTenantsCreate(w world) *cobra.Command {
	var uid, email, events, attempts string
	cmd, r := remoteCommand(w, &cobra.Command{Use: "create NAME", Short: "Make a tenant", Args: exactly("NAME")})
	cmd.Flags().StringVar(&uid, "uid", "", "your own `name` for it, to use wherever its id is asked for")
	cmd.Flags().StringVar(&email, "contact-email", "", "`address` to write to when its endpoints fail, where alerts.mail_url is set")
	keepTenantFlags(cmd, &events, &attempts)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		fields := map[string]any{"name": args[0]}
		setText(fields, "uid", uid)
		setText(fields, "contact_email", email)
		setKeep(fields, events, attempts)
		body, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		return r.fetch(cmd.Context(), call{method: http.MethodPost, path: []string{"tenants"}, body: body},
			func(body json.RawMessage) error {
				t, err := decode[tenant](body)
				if err != nil {
					return err
				}
				fmt.Fprintln(w.stdout, printable(t.ID))
				return nil
			})
	}
	return cmd
}

func keepTenantFlags(cmd *cobra.Command, events, attempts *string) {
	cmd.Flags().StringVar(events, "keep-events", "", "`time` that its events and their payloads are kept, such as 90d; default: as the server has it")
	cmd.Flags().StringVar(attempts, "keep-attempts", "", "`time` that its attempts are kept, such as 14d; default: as the server has it")
	judge(cmd, "keep-events", spanOrDefault)
	judge(cmd, "keep-attempts", spanOrDefault)
}

// asOfAll is what takes a tenant's own time away.
const asOfAll = "default"

func spanOrDefault(text string) error {
	if text == asOfAll {
		return nil
	}
	_, err := duration.Parse(text)
	return err
}

func setKeep(fields map[string]any, events, attempts string) {
	keep := map[string]any{}
	for name, text := range map[string]string{"events": events, "attempts": attempts} {
		switch text {
		case "":
		case asOfAll:
			keep[name] = nil
		default:
			keep[name] = text
		}
	}
	if len(keep) > 0 {
		fields["retention"] = keep
	}
}

func newTenantsUpdate(w world) *cobra.Command {
	var name, email, events, attempts string
	cmd, r := remoteCommand(w, &cobra.Command{
		Use: "update TENANT", Short: "Change a tenant", Args: exactly("TENANT"),
		Example: "  postrider tenants update acme --keep-events 365d --keep-attempts default",
	})
	cmd.Flags().StringVar(&name, "name", "", "its `name`")
	cmd.Flags().StringVar(&email, "contact-email", "", "another `address` to write to when its endpoints fail; empty: none")
	keepTenantFlags(cmd, &events, &attempts)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		fields := map[string]any{}
		setText(fields, "name", name)
		setText(fields, "contact_email", email)
		if email == "" && cmd.Flags().Changed("contact-email") {
			fields["contact_email"] = nil
		}
		setKeep(fields, events, attempts)
		if len(fields) == 0 {
			return usagef(cmd, "nothing is to be changed: give a flag")
		}
		body, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		return r.fetch(cmd.Context(), call{method: http.MethodPatch, path: []string{"tenants", args[0]}, body: body},
			func(body json.RawMessage) error {
				t, err := decode[tenant](body)
				if err != nil {
					return err
				}
				fmt.Fprintln(w.stdout, printable(t.ID))
				return nil
			})
	}
	return cmd
}

func newTenantsErase(w world) *cobra.Command {
	var f jobFlags
	var confirm string
	cmd, r := remoteCommand(w, &cobra.Command{
		Use: "erase TENANT", Short: "Erase a tenant and all that there is of it, for good", Args: exactly("TENANT"),
		Long: "Erase a tenant, deleted or not, and all that there is of it: endpoints and secrets, events and payloads, deliveries,\n" +
			"attempts, alerts, schedules, keys, sessions. It is deleted at once, and erased bit by bit by the scheduler. A tenant that is\n" +
			"deleted is named by its id. What stays is that it was erased.",
		Example: "  postrider tenants erase acme --confirm acme --wait",
	})
	cmd.Flags().StringVar(&confirm, "confirm", "", "the tenant's `id or uid` once more")
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait for its end; exit code 1 unless it succeeded")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if confirm != args[0] {
			return usagef(cmd, "this cannot be taken back: give --confirm %s", quote(args[0]))
		}
		return f.start(cmd.Context(), r, []string{"tenants", args[0], "erase"}, map[string]any{"confirm": confirm})
	}
	return cmd
}

// setText puts a text into a JSON object if there is one.
func setText(fields map[string]any, name, value string) {
	if value != "" {
		fields[name] = value
	}
}

func newTenantsList(w world) *cobra.Command {
	var l listing
	cmd, r := remoteCommand(w, &cobra.Command{Use: "list", Short: "List tenants, newest first", Args: exactly()})
	l.flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return r.show(cmd, l, []string{"tenants"}, nil, func(p page) error {
			list, err := rows[tenant](p)
			if err != nil {
				return err
			}
			t := newTable("ID", "UID", "NAME", "CONTACT", "CREATED")
			for _, one := range list {
				t.add(one.ID, text(one.UID), clip(one.Name, 40), text(one.ContactEmail), w.clock(&one.CreatedAt))
			}
			t.list(w.stdout, "tenants")
			return nil
		})
	}
	return cmd
}
