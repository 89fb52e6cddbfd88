package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
)

// measurement is one figure of one run.
type measurement struct {
	name string // no two have the same
	got  float64
	unit string
	want limit
}

func (m measurement) String() string {
	return fmt.Sprintf("%-62s %s %s", m.name, number(m.got), m.unit)
}

// limit is what is wanted of a figure; the zero one wants nothing: the figure is there to be known.
type limit struct {
	side  string // ≥ or ≤
	value float64
}

func atLeast(v float64) limit { return limit{"≥", v} }
func atMost(v float64) limit  { return limit{"≤", v} }

func (l limit) String() string {
	if l.side == "" {
		return ""
	}
	return l.side + " " + strconv.FormatFloat(l.value, 'f', -1, 64)
}

func (l limit) met(v float64) bool {
	switch l.side {
	case "≥":
		return v >= l.value
	case "≤":
		return v <= l.value
	}
	return true
}

// row is a figure over all runs.
type row struct {
	measurement
	all []float64
}

type table struct{ rows []*row }

func (t *table) add(m measurement) {
	for _, r := range t.rows {
		if r.name == m.name {
			r.all = append(r.all, m.got)
			return
		}
	}
	t.rows = append(t.rows, &row{m, []float64{m.got}})
}

func (t *table) print(to io.Writer) {
	fmt.Fprintf(to, "\n%-62s %10s %10s %10s %-6s %-9s %s\n", "figure", "median", "least", "most", "", "wanted", "met")
	met, wanted := 0, 0
	for _, r := range t.rows {
		verdict := ""
		if r.want.side != "" {
			wanted++
			verdict = "NO"
			if r.want.met(median(r.all)) {
				met++
				verdict = "yes"
			}
		}
		fmt.Fprintf(to, "%-62s %s %s %s %-6s %-9s %s\n", r.name, number(median(r.all)), number(slices.Min(r.all)),
			number(slices.Max(r.all)), r.unit, r.want, verdict)
	}
	fmt.Fprintf(to, "\n%d of %d are met\n", met, wanted)
}

// write puts the table into a file for machines.
func (t *table) write(path string) error {
	type line struct {
		Name   string    `json:"name"`
		Unit   string    `json:"unit"`
		Median float64   `json:"median"`
		Least  float64   `json:"least"`
		Most   float64   `json:"most"`
		All    []float64 `json:"all"` // in the order of the runs
		Wanted string    `json:"wanted,omitempty"`
		Met    *bool     `json:"met,omitempty"`
	}
	lines := make([]line, 0, len(t.rows))
	for _, r := range t.rows {
		l := line{r.name, r.unit, median(r.all), slices.Min(r.all), slices.Max(r.all), r.all, r.want.String(), nil}
		if r.want.side != "" {
			met := r.want.met(l.Median)
			l.Met = &met
		}
		lines = append(lines, l)
	}
	text, err := json.MarshalIndent(lines, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

// number has three decimals, or none where they say nothing.
func number(v float64) string {
	if math.Abs(v) >= 1000 {
		return fmt.Sprintf("%10.0f", v)
	}
	return fmt.Sprintf("%10.3f", v)
}

// median leaves v as it is. Of an even number it is the mean of the two in the middle.
func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
