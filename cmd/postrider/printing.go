package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
)

// jsonFlag adds --json.
func jsonFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "print JSON, for machines")
}

// printJSON writes v for machines.
func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// table collects rows and prints them in columns. Widths are counted in characters, and every cell is made printable:
// much of what is shown came from tenants and from receivers.
type table struct {
	rows [][]string
}

func newTable(head ...string) *table {
	t := &table{}
	t.add(head...)
	return t
}

func (t *table) add(cells ...string) {
	for i, c := range cells {
		if cells[i] = printable(c); cells[i] == "" {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

func (t *table) print(w io.Writer) {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for _, row := range t.rows {
		var line strings.Builder
		for i, c := range row {
			line.WriteString(c)
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+2))
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// list prints rows, or says that there are none.
func (t *table) list(w io.Writer, what string) {
	if len(t.rows) == 1 {
		fmt.Fprintln(w, "no", what)
		return
	}
	t.print(w)
}

// printable replaces what would steer a terminal or turn text around (control and format characters, broken UTF-8).
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, s)
}

func quote(s string) string { return strconv.Quote(s) }

// clip shortens a text to n characters.
func clip(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return s
}

// isTerminal reports whether a person is likely to read w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// clock writes times for whoever reads: how long ago on a terminal, the time itself in a pipe or a file.
func (w world) clock(t *time.Time) string {
	switch {
	case t == nil || t.IsZero():
		return ""
	case !isTerminal(w.stdout):
		return t.UTC().Format(time.RFC3339)
	}
	return relative(t.Sub(w.now()))
}

// relative says how far away a time is: "3m ago", "in 2h", "now".
func relative(d time.Duration) string {
	size := d.Abs()
	var text string
	switch {
	case size < time.Second:
		return "now"
	case size < time.Minute:
		text = strconv.Itoa(int(size/time.Second)) + "s"
	case size < time.Hour:
		text = strconv.Itoa(int(size/time.Minute)) + "m"
	case size < 48*time.Hour:
		text = strconv.Itoa(int(size/time.Hour)) + "h"
	default:
		text = strconv.Itoa(int(size/(24*time.Hour))) + "d"
	}
	if d < 0 {
		return text + " ago"
	}
	return "in " + text
}
