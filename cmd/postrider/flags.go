package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/postrider/postrider/internal/duration"
)

// judged is a flag whose values are checked as the command line is read, before anything is tried: what can be known
// without a server is a fault of the command line.
type judged struct {
	pflag.Value
	check func(value string) error
}

// Set takes the text of the flag. An empty one is no value: it takes back what there was.
func (j *judged) Set(text string) error {
	if err := j.Value.Set(text); err != nil {
		return err
	}
	values := []string{j.String()}
	if list, ok := j.Value.(pflag.SliceValue); ok {
		values = list.GetSlice()
	} else if text == "" {
		values = nil
	}
	for _, v := range values {
		if err := j.check(v); err != nil {
			return err
		}
	}
	return nil
}

// judge has a flag of texts refuse values that are known to be wrong; a list's are checked each.
func judge(cmd *cobra.Command, name string, check func(value string) error) {
	f := cmd.Flag(name)
	f.Value = &judged{f.Value, check}
	f.DefValue = "" // pflag would print a list's as (default [])
}

// among checks for a fixed choice.
func among[T ~string](choice ...T) func(string) error {
	return func(value string) error {
		if slices.Contains(choice, T(value)) {
			return nil
		}
		return fmt.Errorf("%s is none of %s", quote(value), join(choice))
	}
}

func join[T ~string](choice []T) string {
	names := make([]string, len(choice))
	for i, c := range choice {
		names[i] = string(c)
	}
	return strings.Join(names, ", ")
}

// words gives the names of an enum's values.
func words[T fmt.Stringer](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = v.String()
	}
	return out
}

// span checks for a duration. How long it may be, the server knows.
func span(value string) error {
	_, err := duration.Parse(value)
	return err
}

// positive judges a duration that may not be 0.
func positive(value string) error {
	d, err := duration.Parse(value)
	if err == nil && d <= 0 {
		err = errors.New("it has to be more than 0")
	}
	return err
}

// flagFault says what is wrong with a flag in our words; pflag's quote the function that read the value.
func flagFault(cmd *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return usagef(cmd, "%v", err)
	}
	name := bad.GetFlag().Name
	switch bad.GetFlag().Value.Type() {
	case "int":
		return usagef(cmd, "--%s has to be a whole number such as 50, not %s", name, quote(bad.GetValue()))
	case "bool":
		return usagef(cmd, "--%s has to be true or false, not %s", name, quote(bad.GetValue()))
	}
	return usagef(cmd, "--%s: %v", name, bad.Unwrap())
}

// requiredFlag is the annotation of a flag that a command cannot do without. Its values are what to call it by.
const requiredFlag = "postrider_required"

// require marks flags that have no default, and may not be empty.
func require(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		cmd.Flag(name).Annotations = map[string][]string{requiredFlag: nil}
	}
}

// requirePayload marks that one of the two flags for a payload has to be there. It may be empty.
func requirePayload(cmd *cobra.Command) {
	cmd.Flag("data").Annotations = map[string][]string{requiredFlag: {"file"}}
}

// needAll refuses a command line that lacks required flags, and names them all.
func needAll(cmd *cobra.Command) error {
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		others, required := f.Annotations[requiredFlag]
		switch {
		case !required:
		case len(others) == 0:
			if f.Value.String() == "" {
				missing = append(missing, "--"+f.Name)
			}
		case !f.Changed && !cmd.Flag(others[0]).Changed:
			missing = append(missing, "--"+f.Name+" or --"+others[0]+" (- is the standard input)")
		}
	})
	switch last := len(missing) - 1; {
	case last < 0:
		return nil
	case last == 0:
		return usagef(cmd, "%s is missing", missing[0])
	default:
		return usagef(cmd, "%s and %s are missing", strings.Join(missing[:last], ", "), missing[last])
	}
}
