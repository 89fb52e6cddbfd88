package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/config"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// progressEvery is how many buckets are gone through between two lines of progress.
const progressEvery = 32

// rotation is what `secrets rotate` has come to.
type rotation struct {
	DryRun     bool         `json:"dry_run"`
	First      string       `json:"first"`
	Values     int          `json:"reencrypted"` // in a dry run: that would be
	Left       int          `json:"left"`        // under other keys of secrets.keys, all the same
	Unreadable []string     `json:"unreadable"`  // endpoints
	Unused     []string     `json:"unused"`      // keys of secrets.keys that may be taken out
	Keys       []sealKeyRow `json:"keys"`
}

func newSecretsRotate(w world) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use: "rotate", Short: "Encrypt everything anew under the first of secrets.keys", Args: exactly(),
		Long: "Encrypt everything anew under the first of secrets.keys, and say which of the others are not needed any more.\n" +
			"It may be broken off and begun again, and servers may run meanwhile; all of them should have the same first key.",
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say how much there is to do")
	return secretsCommand(w, cmd, func(ctx context.Context, s *sealedStore, _ []string, asJSON bool) error {
		if err := s.CheckKeys(ctx); err != nil {
			return err
		}
		r, err := s.rotate(ctx, dryRun, func(done subscriptions.Resealed) {
			if !asJSON && done.Buckets%progressEvery == 0 && done.Buckets < id.Buckets {
				fmt.Fprintf(w.stderr, "%s re-encrypted, %d%% done\n", values(done.Values), 100*done.Buckets/id.Buckets)
			}
		})
		if err != nil {
			return err
		}
		if asJSON {
			err = printJSON(w.stdout, r)
		} else {
			w.showRotation(r)
		}
		if err == nil && len(r.Unreadable) > 0 {
			err = fmt.Errorf("what is stored for these endpoints does not open and was left as it is: %s", names(r.Unreadable))
		}
		return err
	}, config.NeedSecrets)
}

func (s *sealedStore) rotate(ctx context.Context, dryRun bool, progress func(subscriptions.Resealed)) (rotation, error) {
	r := rotation{DryRun: dryRun, First: s.keys[0], Unreadable: []string{}, Unused: []string{}}
	if !dryRun {
		done, err := s.Reseal(ctx, progress)
		if err != nil {
			return r, err
		}
		r.Values = done.Values
		for _, e := range done.Unreadable {
			r.Unreadable = append(r.Unreadable, id.Endpoint.Format(e))
		}
		if _, err := s.DropUnusedKeys(ctx); err != nil {
			return r, err
		}
	}
	var err error
	if r.Keys, err = s.keyRows(ctx); err != nil {
		return r, err
	}
	for _, k := range r.Keys {
		switch {
		case !k.Configured || k.First:
		case k.Values > 0:
			r.Left += k.Values
		case k.FirstUsedAt == nil:
			r.Unused = append(r.Unused, k.ID)
		}
	}
	if dryRun {
		r.Values, r.Left = r.Left, 0
	}
	return r, nil
}

func (w world) showRotation(r rotation) {
	w.showKeys(r.Keys)
	if r.DryRun {
		fmt.Fprintf(w.stdout, "%s would be re-encrypted under %s\n", values(r.Values), r.First)
		return
	}
	fmt.Fprintf(w.stdout, "%s re-encrypted under %s\n", values(r.Values), r.First)
	if left := r.Left; left > 0 {
		fmt.Fprintf(w.stdout, "%s left under other keys: a process that still encrypts under one of them, or rows that were held; run it again\n",
			values(left))
	}
	if len(r.Unused) > 0 {
		fmt.Fprintf(w.stdout, "not used any more, and may be taken out of secrets.keys: %s\n", names(r.Unused))
	}
}
