package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/postrider/postrider/config"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// keyTable is the keyring in the database itself: who can write there needs no key to make the first one. Listing them
// takes no node number: it makes no id.
type keyTable struct{ db *database }

func openKeyTable(ctx context.Context, c config.Database) (keyring, error) {
	c.MaxConns, c.MigrateOnStart = 2, false
	db, err := openDatabase(ctx, c, nil)
	if err != nil {
		return nil, err
	}
	return keyTable{db}, nil
}

func (k keyTable) keys() *auth.Keys { return auth.NewKeys(k.db.pool, k.db.ids, k.db.clock.Now) }

func (k keyTable) close() error { return k.db.close() }

func (k keyTable) create(ctx context.Context, n newAPIKey) (json.RawMessage, error) {
	if err := k.db.takeNode(ctx); err != nil {
		return nil, err
	}
	made := auth.NewKey{Name: n.Name, ExpiresAt: n.ExpiresAt}
	for _, s := range n.Scopes {
		made.Scopes = append(made.Scopes, auth.Scope(s))
	}
	if n.Tenant != nil {
		store := subscriptions.New(subscriptions.Deps{DB: k.db.pool, IDs: k.db.ids, Now: k.db.clock.Now})
		t, err := store.Tenant(ctx, *n.Tenant)
		if err != nil {
			return nil, err
		}
		made.Tenant = &t.ID
	}
	key, text, err := k.keys().Create(audit.With(ctx, audit.CLI(machineUser())), made)
	if err != nil {
		return nil, err
	}
	shown := showKey(key)
	shown.Key = text
	return json.Marshal(shown)
}

func (k keyTable) list(ctx context.Context, limit int) (page, error) {
	keys, err := k.keys().List(ctx, limit, id.ID{})
	if err != nil {
		return page{}, err
	}
	p := page{Data: []json.RawMessage{}}
	for _, key := range keys {
		raw, err := json.Marshal(showKey(key))
		if err != nil {
			return page{}, err
		}
		p.Data = append(p.Data, raw)
	}
	return p, nil
}

func (k keyTable) revoke(ctx context.Context, key string) error {
	n, err := id.Key.Parse(key)
	if err != nil {
		return fault.Wrap(fault.NotFound, err, "no such API key: %s", quote(key))
	}
	if err := k.db.takeNode(ctx); err != nil {
		return err
	}
	if err := k.keys().Revoke(audit.With(ctx, audit.CLI(machineUser())), n); err != nil {
		return fmt.Errorf("revoke %s: %w", key, err)
	}
	return nil
}

// showKey shows a key as the API does.
func showKey(k auth.Key) apiKey {
	shown := apiKey{
		ID: id.Key.Format(k.ID), Name: k.Name, Hint: k.Hint, Scopes: make([]string, 0, len(k.Scopes)),
		CreatedAt: k.CreatedAt.UTC().Truncate(time.Millisecond),
	}
	for _, s := range k.Scopes {
		shown.Scopes = append(shown.Scopes, string(s))
	}
	if k.Tenant != nil {
		tenant := id.Tenant.Format(*k.Tenant)
		shown.TenantID = &tenant
	}
	if k.ExpiresAt != nil {
		ends := k.ExpiresAt.UTC().Truncate(time.Millisecond)
		shown.ExpiresAt = &ends
	}
	if k.LastUsedAt != nil {
		used := k.LastUsedAt.UTC().Truncate(time.Millisecond)
		shown.LastUsedAt = &used
	}
	return shown
}
