package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/spf13/cobra"
)

func newEventTypesImport(w world) *cobra.Command {
	var dryRun bool
	cmd, r := remoteCommand(w, &cobra.Command{
		Use: "import FILE", Short: "Put the webhooks of an OpenAPI 3.1 description into the catalogue", Args: exactly("FILE"),
		Long: "Put each of the `webhooks` of an OpenAPI 3.1 description (JSON; - for the standard input) into the catalogue, under its\n" +
			"name: its description, the schema of its JSON body with the components it refers to, and an example. What the catalogue\n" +
			"has besides stays.",
	})
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be put, and put nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := readFile(args[0], w.stdin)
		if err != nil {
			return fmt.Errorf("read the description: %w", err)
		}
		types, err := webhooksOf(text)
		if err != nil {
			return err
		}
		if dryRun {
			body, err := json.Marshal(types)
			if err != nil {
				return err
			}
			return printJSON(w.stdout, json.RawMessage(body))
		}
		return w.putAll(cmd, r, types)
	}
	return cmd
}

// putAll goes on after one that is refused, and tells of all that were.
func (w world) putAll(cmd *cobra.Command, r *remote, types map[string]map[string]any) error {
	c, err := r.client()
	if err != nil {
		return err
	}
	var faults []error
	answers := []json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		body, err := json.Marshal(types[name])
		if err != nil {
			return err
		}
		answer, err := c.do(cmd.Context(), call{method: http.MethodPut, path: eventTypePath(name), body: body})
		switch {
		case isStatus(err, http.StatusUnprocessableEntity):
			faults = append(faults, fmt.Errorf("%s: %w", quote(name), err))
			continue
		case err != nil:
			return errors.Join(append(faults, err)...)
		}
		answers = append(answers, answer)
		if !r.json {
			if err := w.showPut(answer); err != nil {
				return err
			}
		}
	}
	if r.json {
		if err := printJSON(w.stdout, answers); err != nil {
			return err
		}
	}
	return errors.Join(faults...)
}
