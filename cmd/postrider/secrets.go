package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/config"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/subscriptions"
)

func newSecrets(w world) *cobra.Command {
	cmd := group("secrets", "Look after the keys that secrets are encrypted under in the database",
		newSecretsStatus(w), newSecretsRotate(w), newSecretsGiveUp(w))
	cmd.Long = "Look after the keys that secrets are encrypted under in the database (secrets.keys, secrets.key_file).\n" +
		"These commands work on the database itself, also while servers run on it."
	return cmd
}

// sealedStore is the store of endpoints on the database, with the keys that are configured.
type sealedStore struct {
	*subscriptions.Store
	db   *database
	keys []string // ids of the keys of secrets.keys; none without any
}

func openSealedStore(ctx context.Context, cfg config.Config) (*sealedStore, error) {
	var box *seal.Box
	var keys []string
	if len(cfg.Secrets.Keys) > 0 {
		var err error
		if box, err = sealBox(cfg.Secrets); err != nil {
			return nil, err
		}
		keys = box.KeyIDs()
	}
	c := cfg.Database
	c.MaxConns, c.MigrateOnStart = 2, false
	db, err := openDatabase(ctx, c, nil)
	if err != nil {
		return nil, err
	}
	return &sealedStore{subscriptions.New(subscriptions.Deps{DB: db.pool, Now: db.clock.Now, Box: box}), db, keys}, nil
}

// secretsCommand makes a command of the group. needs are what it cannot do without beside the database.
func secretsCommand(
	w world, cmd *cobra.Command, run func(ctx context.Context, s *sealedStore, args []string, asJSON bool) error, needs ...config.Need,
) *cobra.Command {
	var asJSON bool
	jsonFlag(cmd, &asJSON)
	configFlags(cmd, "database.url", "database.pooler", "secrets.key_file")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		cfg, err := w.load(cmd, append(needs, config.NeedDatabase)...)
		if err != nil {
			return err
		}
		s, err := openSealedStore(cmd.Context(), cfg)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.db.close()) }()
		return run(cmd.Context(), s, args, asJSON)
	}
	return cmd
}

// sealKeyRow is a key as it is shown.
type sealKeyRow struct {
	ID          string     `json:"id"`
	Values      int        `json:"values"`
	Configured  bool       `json:"configured"`
	First       bool       `json:"first"` // encrypts, as far as this configuration goes
	Lost        bool       `json:"given_up"`
	FirstUsedAt *time.Time `json:"first_used_at"`
}

// keyRows gives all keys that are known: the configured ones in their order, then those that are missing.
func (s *sealedStore) keyRows(ctx context.Context) ([]sealKeyRow, error) {
	uses, err := s.KeyUses(ctx)
	if err != nil {
		return nil, err
	}
	var out []sealKeyRow
	for i, key := range s.keys {
		out = append(out, sealKeyRow{ID: key, Configured: true, First: i == 0})
	}
	for _, u := range uses {
		at := -1
		for i := range out {
			if out[i].ID == u.ID {
				at = i
			}
		}
		if at < 0 {
			at, out = len(out), append(out, sealKeyRow{ID: u.ID})
		}
		out[at].Values, out[at].Lost, out[at].FirstUsedAt = u.Values, u.Lost, u.FirstUsedAt
	}
	return out, nil
}

func (w world) showKeys(keys []sealKeyRow) {
	t := newTable("KEY", "VALUES", "IN SECRETS.KEYS", "FIRST USED")
	for _, k := range keys {
		place := "yes"
		switch {
		case k.First:
			place = "first: encrypts"
		case k.Configured:
		case k.Lost:
			place = "no: given up"
		default:
			place = "no: missing"
		}
		t.add(k.ID, strconv.Itoa(k.Values), place, w.clock(k.FirstUsedAt))
	}
	t.list(w.stdout, "keys")
}

func newSecretsStatus(w world) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Say how many values are encrypted under which key", Args: exactly(),
		Long: "Say how many values are encrypted under which key. A key's id is the first 8 hex digits of its SHA-256.",
	}
	return secretsCommand(w, cmd, func(ctx context.Context, s *sealedStore, _ []string, asJSON bool) error {
		keys, err := s.keyRows(ctx)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(w.stdout, map[string]any{"keys": keys})
		}
		w.showKeys(keys)
		return nil
	})
}

func newSecretsGiveUp(w world) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use: "give-up KEY_ID", Short: "Let servers start although an encryption key is lost for good", Args: exactly("KEY_ID"),
		Long: "Let servers start although an encryption key is lost for good. What was encrypted under it cannot be had back: the\n" +
			"endpoints that are printed get nothing, and their deliveries wait, until each has a new secret (and new static\n" +
			"headers and its client certificate with the key, if it had any). Should the key be found, configure it, and all is as\n" +
			"it was.",
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only print the endpoints")
	return secretsCommand(w, cmd, func(ctx context.Context, s *sealedStore, args []string, asJSON bool) error {
		endpoints, err := s.EndpointsUnder(ctx, args[0])
		if err != nil {
			return err
		}
		if !dryRun {
			if err := s.GiveUpKey(ctx, args[0]); err != nil {
				return err
			}
		}
		type row struct {
			Tenant   string `json:"tenant_id"`
			Endpoint string `json:"endpoint_id"`
		}
		rows := []row{}
		t := newTable("TENANT", "ENDPOINT")
		for _, e := range endpoints {
			r := row{id.Tenant.Format(e.Tenant), id.Endpoint.Format(e.Endpoint)}
			rows = append(rows, r)
			t.add(r.Tenant, r.Endpoint)
		}
		if asJSON {
			return printJSON(w.stdout, map[string]any{"key": args[0], "given_up": !dryRun, "endpoints": rows})
		}
		t.list(w.stdout, "endpoints are concerned")
		return nil
	})
}

// names puts key ids into a sentence.
func names(keys []string) string { return strings.Join(keys, ", ") }

// values is "1 value", "2 values".
func values(n int) string {
	if n == 1 {
		return "1 value"
	}
	return fmt.Sprintf("%d values", n)
}
