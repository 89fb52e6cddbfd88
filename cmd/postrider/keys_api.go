package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// keyAPI is the keyring behind a server.
type keyAPI struct{ c *client }

func (k keyAPI) create(ctx context.Context, n newAPIKey) (json.RawMessage, error) {
	body, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	return k.c.do(ctx, call{method: http.MethodPost, path: []string{"api-keys"}, body: body})
}

func (k keyAPI) list(ctx context.Context, limit int) (page, error) {
	return k.c.list(ctx, []string{"api-keys"}, url.Values{}, limit)
}

func (k keyAPI) revoke(ctx context.Context, key string) error {
	_, err := k.c.do(ctx, call{method: http.MethodDelete, path: []string{"api-keys", key}})
	return err
}

func (keyAPI) close() error { return nil }
