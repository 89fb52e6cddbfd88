package config

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// printed is one key as Print shows it in JSON.
type printed struct {
	Value  any    `json:"value"`          // a text, a list of texts, a number or a truth value
	Source Source `json:"source"`         // default, file, env or flag
	From   string `json:"from,omitempty"` // postrider.yaml:12, POSTRIDER_HTTP_ADDR or --http.addr
}

// Print writes the effective configuration and where each value comes from: for people a line for each key, in JSON one
// object with the keys as names. Secrets are written as [redacted]; a URL keeps its host and, if it has one, its database.
func (c *Config) Print(w io.Writer, asJSON bool) error {
	if asJSON {
		all := make(map[string]printed, len(keys))
		for _, k := range keys {
			o := c.origin(k.name)
			all[k.name] = printed{k.shown(c), o.source, o.place}
		}
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(all)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, k := range keys {
		o := c.origin(k.name)
		source := string(o.source)
		if o.place != "" {
			source += " " + o.place
		}
		// The writer keeps its first error and gives it again in Flush.
		fmt.Fprintf(table, "%s\t%s\t%s\n", k.name, line(k.shown(c)), line(source))
	}
	return table.Flush()
}

// shown is the value of a key for people. A default is spelled as the documentation spells it: 24h, not 1d.
func (k key) shown(c *Config) any {
	value := k.show(c)
	if !k.isDefault(c) {
		return value
	}
	switch value.(type) {
	case string:
		return k.def
	case []string:
		return append([]string{}, k.split(k.def)...) // not nil, which JSON writes as null
	}
	return value
}

// line writes a value in one line, "-" for none.
func line(value any) string {
	text := fmt.Sprint(value)
	if list, ok := value.([]string); ok {
		text = strings.Join(list, ",")
	}
	switch {
	case text == "":
		return "-"
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return strconv.Quote(text)
	}
	return text
}

// format writes the keys of a section that have a value, for fmt. It stands in for fmt's own way with structs, which
// would print the secrets.
func format(w io.Writer, c Config, section string) {
	separator := "{"
	for _, k := range keys {
		if strings.HasPrefix(k.name, section) {
			fmt.Fprintf(w, "%s%s:%s", separator, k.name, line(k.show(&c)))
			separator = " "
		}
	}
	fmt.Fprint(w, "}")
}

// Format prints the whole configuration redacted, whatever the verb.
func (c Config) Format(s fmt.State, _ rune) { format(s, c, "") }

// Format prints the section redacted, whatever the verb.
func (d Database) Format(s fmt.State, _ rune) { format(s, Config{Database: d}, "database.") }

// Format prints the section redacted, whatever the verb.
func (x Secrets) Format(s fmt.State, _ rune) { format(s, Config{Secrets: x}, "secrets.") }

// Format prints the section redacted, whatever the verb.
func (d Delivery) Format(s fmt.State, _ rune) { format(s, Config{Delivery: d}, "delivery.") }

// Format prints the section redacted, whatever the verb.
func (a Alerts) Format(s fmt.State, _ rune) { format(s, Config{Alerts: a}, "alerts.") }

// Format prints the section redacted, whatever the verb.
func (b Bootstrap) Format(s fmt.State, _ rune) { format(s, Config{Bootstrap: b}, "bootstrap.") }
