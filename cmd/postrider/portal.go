package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

func newPortal(w world) *cobra.Command {
	return group("portal", "Make links into tenants' own portals", newPortalLink(w))
}

// portalLink is a link as the API gives it.
type portalLink struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

func portalLinkPath(tenant string) []string { return []string{"tenants", tenant, "portal-sessions"} }

func newPortalLink(w world) *cobra.Command {
	var readOnly bool
	var expiresIn string
	cmd, r := remoteCommand(w, &cobra.Command{
		Use: "link TENANT", Short: "Make a link that opens a tenant's portal once", Args: exactly("TENANT"),
		Example: "  postrider portal link acme --read-only",
	})
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "who enters by it may look and change nothing")
	cmd.Flags().StringVar(&expiresIn, "expires-in", "", "how long the link is good, 1m to 1h (default 5m)")
	judge(cmd, "expires-in", span)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		fields := map[string]any{"read_only": readOnly}
		setText(fields, "expires_in", expiresIn)
		body, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		what := call{method: http.MethodPost, path: portalLinkPath(args[0]), body: body}
		return r.fetch(cmd.Context(), what, func(body json.RawMessage) error {
			link, err := decode[portalLink](body)
			if err != nil {
				return err
			}
			fmt.Fprintln(w.stdout, printable(link.URL))
			fmt.Fprintln(w.stderr, "It opens once, until "+w.clock(&link.ExpiresAt)+".")
			return nil
		})
	}
	return cmd
}
