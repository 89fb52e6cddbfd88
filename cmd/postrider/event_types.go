package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

// eventType is what of an entry of the catalogue is shown to people.
type eventType struct {
	Type        string          `json:"type"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Example     json.RawMessage `json:"example"`
	Archived    bool            `json:"archived"`
	UpdatedAt   time.Time       `json:"updated_at"`
}

func newEventTypes(w world) *cobra.Command {
	return group("event-types", "Keep the catalogue of event types", newEventTypesList(w), newEventTypesPut(w),
		newEventTypesDelete(w), newEventTypesImport(w))
}

func eventTypePath(name string) []string { return []string{"event-types", name} }

func newEventTypesList(w world) *cobra.Command {
	var l listing
	var all bool
	cmd, r := remoteCommand(w, &cobra.Command{Use: "list", Short: "List the catalogue, newest first", Args: exactly()})
	l.flags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "those that are archived, too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		if !all {
			query.Set("archived", "false")
		}
		return r.show(cmd, l, []string{"event-types"}, query, func(p page) error {
			list, err := rows[eventType](p)
			if err != nil {
				return err
			}
			t := newTable("TYPE", "SCHEMA", "EXAMPLE", "ARCHIVED", "CHANGED", "DESCRIPTION")
			for _, one := range list {
				t.add(one.Type, given(one.Schema), given(one.Example), yes(one.Archived), w.clock(&one.UpdatedAt), clip(one.Description, 60))
			}
			t.list(w.stdout, "event types")
			return nil
		})
	}
	return cmd
}

func given(value json.RawMessage) string { return yes(len(value) > 0 && string(value) != "null") }

func yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
}

func newEventTypesPut(w world) *cobra.Command {
	var description, schemaFile, exampleFile string
	var archived bool
	cmd, r := remoteCommand(w, &cobra.Command{
		Use: "put TYPE", Short: "Put an event type into the catalogue, or replace what it has there", Args: exactly("TYPE"),
		Long: "Put an event type into the catalogue. It replaces all that is there: what no flag gives is not there any more.",
	})
	cmd.Flags().StringVar(&description, "description", "", "what has happened")
	cmd.Flags().StringVar(&schemaFile, "schema", "", "`file` with the JSON Schema that payloads have to fulfil, - for the standard input")
	cmd.Flags().StringVar(&exampleFile, "example", "", "`file` with a payload, - for the standard input")
	cmd.Flags().BoolVar(&archived, "archived", false, "not to be offered any more")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if schemaFile == "-" && exampleFile == "-" {
			return usagef(cmd, "--schema and --example cannot both be the standard input")
		}
		fields := map[string]any{}
		setText(fields, "description", description)
		if archived {
			fields["archived"] = true
		}
		for name, file := range map[string]string{"schema": schemaFile, "example": exampleFile} {
			if err := w.putJSONFile(fields, name, file); err != nil {
				return err
			}
		}
		body, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		return r.fetch(cmd.Context(), call{method: http.MethodPut, path: eventTypePath(args[0]), body: body}, w.showPut)
	}
	return cmd
}

func (w world) putJSONFile(fields map[string]any, name, file string) error {
	if file == "" {
		return nil
	}
	text, err := readFile(file, w.stdin)
	if err != nil {
		return fmt.Errorf("read the %s: %w", name, err)
	}
	if !json.Valid(text) {
		return errors.New("the " + name + " is not JSON")
	}
	fields[name] = json.RawMessage(text)
	return nil
}

func (w world) showPut(body json.RawMessage) error {
	t, err := decode[eventType](body)
	if err != nil {
		return err
	}
	fmt.Fprintln(w.stdout, "put", printable(t.Type))
	return nil
}

func newEventTypesDelete(w world) *cobra.Command {
	cmd, r := remoteCommand(w, &cobra.Command{
		Use: "delete TYPE", Short: "Take an event type out of the catalogue; events of it are accepted as before", Args: exactly("TYPE"),
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := r.client()
		if err != nil {
			return err
		}
		if _, err := c.do(cmd.Context(), call{method: http.MethodDelete, path: eventTypePath(args[0])}); err != nil {
			return err
		}
		return r.done("deleted", args[0])
	}
	return cmd
}
