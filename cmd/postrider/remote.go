package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/internal/pgcluster"
)

const defaultURL = "http://127.0.0.1:8080"

// remote is where a command's calls go, and how their answers are shown.
type remote struct {
	w             world
	url, key, dir string
	json          bool
}

// remoteCommand makes a command that calls a server. act adds its own flags to the command.
func remoteCommand(w world, cmd *cobra.Command) (*cobra.Command, *remote) {
	r := &remote{w: w}
	cmd.Flags().StringVar(&r.url, "url", "", "the server's `URL` (POSTRIDER_URL; default "+defaultURL+")")
	cmd.Flags().StringVar(&r.key, "api-key", "", "API `key` (POSTRIDER_API_KEY); with neither, that of a running `postrider dev`")
	cmd.Flags().StringVar(&r.dir, "dir", defaultDevDir(), "`folder` of `postrider dev`")
	judge(cmd, "url", checkBase)
	jsonFlag(cmd, &r.json)
	return cmd, r
}

// defaultDevDir is where `postrider dev` keeps what it makes.
func defaultDevDir() string { return filepath.Join(pgcluster.DefaultDir(), "dev") }

// client finds the server: what the flags say, else the environment, else a `postrider dev` that is running. Its URL is
// used only with its own key, and its key goes to nobody but itself.
func (r *remote) client() (*client, error) {
	base, key := r.url, r.key
	if base == "" {
		base = r.w.env("POSTRIDER_URL")
	}
	base = trimBase(base)
	if key == "" {
		key = r.w.env("POSTRIDER_API_KEY")
	}
	none := ""
	if base == "" || key == "" {
		dev, err := readDevState(r.dir)
		if err != nil && key == "" {
			return nil, err
		}
		if dev.URL != "" && (base == "" || base == dev.URL) && (key == "" || key == dev.Key) {
			base, key = dev.URL, dev.Key
		}
		if dev.URL == "" {
			none = fmt.Sprintf("; none runs in %s, and one that runs in another folder is found by its --dir", r.dir)
		}
	}
	if key == "" {
		return nil, errors.New("no API key: give one by POSTRIDER_API_KEY or --api-key (`postrider keys create` makes one), " +
			"or start `postrider dev`, whose own is found by itself" + none)
	}
	if base == "" {
		base = defaultURL
	}
	return newClient(base, key)
}

// env gives an environment variable.
func (w world) env(name string) (value string) {
	for _, entry := range w.environ {
		if len(entry) > len(name) && entry[:len(name)] == name && entry[len(name)] == '=' {
			value = entry[len(name)+1:]
		}
	}
	return value
}

// fetch makes a call and shows the answer: as it is with --json, else by human.
func (r *remote) fetch(ctx context.Context, what call, human func(body json.RawMessage) error) error {
	c, err := r.client()
	if err != nil {
		return err
	}
	body, err := c.do(ctx, what)
	if err != nil {
		return err
	}
	if !r.json {
		return human(body)
	}
	if len(body) == 0 {
		return nil // a 204 has nothing to say
	}
	return printJSON(r.w.stdout, body)
}

// listing is the flags that every list has.
type listing struct {
	limit  int
	cursor string
}

func (l *listing) flags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&l.limit, "limit", 50, "`number` of rows at most")
	cmd.Flags().StringVar(&l.cursor, "cursor", "", "go on after a former list: its next_`cursor`")
}

// show gets a list and prints it, with the way to the next rows.
func (r *remote) show(cmd *cobra.Command, l listing, path []string, query url.Values, human func(page) error) error {
	if l.limit < 1 {
		return usagef(cmd, "--limit has to be 1 or more")
	}
	c, err := r.client()
	if err != nil {
		return err
	}
	if query == nil {
		query = url.Values{}
	}
	if l.cursor != "" {
		query.Set("cursor", l.cursor)
	}
	p, err := c.list(cmd.Context(), path, query, l.limit)
	if err != nil {
		return err
	}
	if r.json {
		return printJSON(r.w.stdout, p)
	}
	if err := human(p); err != nil {
		return err
	}
	if p.Next != nil {
		fmt.Fprintf(r.w.stderr, "there are more: --cursor %s\n", printable(*p.Next))
	}
	return nil
}

// done says what was done to a thing whose answer has nothing to show.
func (r *remote) done(what, thing string) error {
	if r.json {
		return printJSON(r.w.stdout, map[string]string{"id": thing, "state": what})
	}
	fmt.Fprintln(r.w.stdout, what, printable(thing))
	return nil
}
