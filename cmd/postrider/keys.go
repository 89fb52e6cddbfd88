package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/duration"
)

// keyring is where API keys are made and revoked: straight in the database, or through the API of a server.
type keyring interface {
	create(ctx context.Context, n newAPIKey) (json.RawMessage, error)
	list(ctx context.Context, limit int) (page, error)
	revoke(ctx context.Context, key string) error
	close() error
}

// newAPIKey is what the API takes.
type newAPIKey struct {
	Name      string     `json:"name"`
	Scopes    []string   `json:"scopes"`
	Tenant    *string    `json:"tenant,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// apiKey is what the API shows.
type apiKey struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Hint       string     `json:"hint"`
	Scopes     []string   `json:"scopes"`
	TenantID   *string    `json:"tenant_id"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
	Key        string     `json:"key,omitempty"` // once, from the call that made it
}

func newKeys(w world) *cobra.Command {
	cmd := group("keys", "Make, list and revoke API keys", newKeysCreate(w), newKeysList(w), newKeysRevoke(w))
	cmd.Long = "Make, list and revoke API keys: straight in the database if database.url is configured, so that the first key\n" +
		"needs no key; else through a server's API, with a key whose scope is admin."
	return cmd
}

// keyringCommand makes a command of the group. --url on the command line asks for the API whatever is configured.
func keyringCommand(w world, cmd *cobra.Command) (*cobra.Command, *remote, func() (keyring, error)) {
	cmd, r := remoteCommand(w, cmd)
	configFlags(cmd, "database.url", "database.pooler")
	return cmd, r, func() (keyring, error) {
		if r.url == "" {
			cfg, err := w.load(cmd)
			if err != nil {
				return nil, err
			}
			if cfg.Database.URL != "" {
				return openKeyTable(cmd.Context(), cfg.Database)
			}
		}
		c, err := r.client()
		return keyAPI{c}, err
	}
}

func newKeysCreate(w world) *cobra.Command {
	var scopes []string
	var tenant, expiresIn string
	cmd, r, open := keyringCommand(w, &cobra.Command{
		Use: "create NAME", Short: "Make an API key and print it, this once", Args: exactly("NAME"),
	})
	cmd.Flags().StringSliceVar(&scopes, "scopes", nil,
		"what it may do: "+join(auth.Scopes())+" (required)")
	judge(cmd, "scopes", among(auth.Scopes()...))
	cmd.Flags().StringVar(&tenant, "tenant", "", "bind it to this `tenant` (id or uid)")
	cmd.Flags().StringVar(&expiresIn, "expires-in", "", "have it end by itself after this `time`, such as 90d")
	judge(cmd, "expires-in", span)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if len(scopes) == 0 {
			return usagef(cmd, "--scopes is missing, such as --scopes events:write")
		}
		n := newAPIKey{Name: args[0], Scopes: scopes}
		if tenant != "" {
			n.Tenant = &tenant
		}
		if d, err := duration.Parse(expiresIn); err == nil {
			end := w.now().Add(d).UTC()
			n.ExpiresAt = &end
		}
		keys, err := open()
		if err != nil {
			return err
		}
		defer closeKeyring(keys, &err)
		body, err := keys.create(cmd.Context(), n)
		if err != nil {
			return err
		}
		if r.json {
			return printJSON(w.stdout, body)
		}
		k, err := decode[apiKey](body)
		if err != nil {
			return err
		}
		fmt.Fprintln(w.stdout, k.Key)
		fmt.Fprintf(w.stderr, "%s: this is the one time it is shown\n", printable(k.ID))
		return nil
	}
	return cmd
}

func closeKeyring(keys keyring, err *error) {
	if closeErr := keys.close(); *err == nil {
		*err = closeErr
	}
}

func newKeysList(w world) *cobra.Command {
	var limit int
	cmd, r, open := keyringCommand(w, &cobra.Command{
		Use: "list", Short: "List the API keys that are not revoked", Args: exactly(),
	})
	cmd.Flags().IntVar(&limit, "limit", 250, "`number` of keys at most")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if limit < 1 {
			return usagef(cmd, "--limit has to be 1 or more")
		}
		keys, err := open()
		if err != nil {
			return err
		}
		defer closeKeyring(keys, &err)
		p, err := keys.list(cmd.Context(), limit)
		if err != nil {
			return err
		}
		if r.json {
			return printJSON(w.stdout, p)
		}
		list, err := rows[apiKey](p)
		if err != nil {
			return err
		}
		t := newTable("ID", "NAME", "KEY", "SCOPES", "TENANT", "CREATED", "EXPIRES", "LAST USED")
		for _, k := range list {
			t.add(k.ID, k.Name, k.Hint, strings.Join(k.Scopes, ","), text(k.TenantID), w.clock(&k.CreatedAt), w.clock(k.ExpiresAt), w.clock(k.LastUsedAt))
		}
		t.list(w.stdout, "keys")
		return nil
	}
	return cmd
}

// text is a string that may be null.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func newKeysRevoke(w world) *cobra.Command {
	cmd, r, open := keyringCommand(w, &cobra.Command{
		Use: "revoke KEY", Short: "End an API key, by its id; servers refuse it within a second", Args: exactly("KEY"),
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		keys, err := open()
		if err != nil {
			return err
		}
		defer closeKeyring(keys, &err)
		if err := keys.revoke(cmd.Context(), args[0]); err != nil {
			return err
		}
		return r.done("revoked", args[0])
	}
	return cmd
}
