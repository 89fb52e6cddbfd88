package main

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// secrets is what signs for an endpoint.
type secrets struct {
	Secret    string    `json:"secret"`
	PublicKey *string   `json:"public_key"`
	CreatedAt time.Time `json:"created_at"`
	Previous  []struct {
		Secret    string     `json:"secret"`
		CreatedAt time.Time  `json:"created_at"`
		ExpiresAt *time.Time `json:"expires_at"`
	} `json:"previous"`
}

func newEndpointsSecret(w world) *cobra.Command {
	return tenantCommand(w, &cobra.Command{Use: "secret ENDPOINT", Short: "Show the signing secret", Args: exactly("ENDPOINT")},
		func(cmd *cobra.Command, r *remote, tenant string, args []string) error {
			return r.fetch(cmd.Context(), call{method: http.MethodGet, path: endpointPath(tenant, args[0], "secret")}, w.showSecrets)
		})
}

func newEndpointsRotate(w world) *cobra.Command {
	var file, overlap string
	cmd := tenantCommand(w, &cobra.Command{
		Use: "rotate ENDPOINT", Short: "Replace the signing secret; the old one signs as well for a while", Args: exactly("ENDPOINT"),
	}, func(cmd *cobra.Command, r *remote, tenant string, args []string) error {
		fields := map[string]any{}
		setText(fields, "overlap", overlap)
		if file != "" {
			secret, err := w.secretFile(file)
			if err != nil {
				return err
			}
			fields["secret"] = secret
		}
		body, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		what := call{method: http.MethodPost, path: endpointPath(tenant, args[0], "secret", "rotate"), body: body}
		return r.fetch(cmd.Context(), what, w.showSecrets)
	})
	cmd.Flags().StringVar(&file, "secret-file", "", "`file` with the new secret, - for the standard input (default: one is made)")
	cmd.Flags().StringVar(&overlap, "overlap", "", "how long the old one signs as well (default 24h; github and timestamped-hex take only 0s)")
	judge(cmd, "overlap", span)
	return cmd
}

func (w world) showSecrets(body json.RawMessage) error {
	s, err := decode[secrets](body)
	if err != nil {
		return err
	}
	t := newTable("SECRET", "MADE", "SIGNS UNTIL")
	t.add(s.Secret, w.clock(&s.CreatedAt), "it is replaced")
	for _, old := range s.Previous {
		t.add(old.Secret, w.clock(&old.CreatedAt), w.clock(old.ExpiresAt))
	}
	t.print(w.stdout)
	if s.PublicKey != nil {
		t := &table{}
		t.add("public key", *s.PublicKey)
		t.print(w.stdout)
	}
	return nil
}
