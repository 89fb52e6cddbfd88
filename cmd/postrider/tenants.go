package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// tenant is what of a tenant is shown to people.
type tenant struct {
	ID           string    `json:"id"`
	UID          *string   `json:"uid"`
	Name         string    `json:"name"`
	ContactEmail *string   `json:"contact_email"`
	CreatedAt    time.Time `json:"created_at"`
}

func newTenants(w world) *cobra.Command {
	return group("tenants", "Make and list tenants", newTenantsCreate(w), newTenantsList(w))
}

func newTenantsCreate(w world) *cobra.Command {
	var uid, email string
	cmd, r := remoteCommand(w, &cobra.Command{Use: "create NAME", Short: "Make a tenant", Args: exactly("NAME")})
	cmd.Flags().StringVar(&uid, "uid", "", "your own `name` for it, to use wherever its id is asked for")
	cmd.Flags().StringVar(&email, "contact-email", "", "whom to write to")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		fields := map[string]any{"name": args[0]}
		setText(fields, "uid", uid)
		setText(fields, "contact_email", email)
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
