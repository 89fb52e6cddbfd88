package web

import (
	"slices"
	"strconv"
	"time"
)

// Chart is figures over time, for app.js to draw; its JSON is what stands in data-chart. What it shows is on the page as a
// table too, for those who read no pictures.
type Chart struct {
	Title   string  `json:"title"`
	X       []int64 `json:"x"` // unix seconds
	Series  []Line  `json:"series"`
	Stacked bool    `json:"stacked"` // bars upon each other, else lines
	Unit    string  `json:"unit"`
}

// Line is one of a chart's series. A value that is nil is not known.
type Line struct {
	Label  string     `json:"label"`
	Colour string     `json:"colour"` // a name in app.css
	Values []*float64 `json:"values"`
}

// Spark is a small picture of figures over time, drawn as SVG: a bar for each step, as high as there were attempts, with what
// failed in it.
type Spark struct {
	Width, Height int
	Bars          []Bar
	Words         string // what it shows, for those who do not see it
}

// Bar is one step of a Spark.
type Bar struct {
	X, W       float64
	AllY, AllH float64
	BadY, BadH float64
}

// The measures of a Spark.
const (
	sparkWidth  = 120
	sparkHeight = 24
)

// NewSpark draws one of how many attempts there were in each step, and how many of them failed.
func NewSpark(all, failed []int64, words string) Spark {
	s := Spark{Width: sparkWidth, Height: sparkHeight, Words: words}
	var most int64
	for _, n := range all {
		most = max(most, n)
	}
	if most == 0 {
		return s
	}
	slot := float64(sparkWidth) / float64(len(all))
	for i, n := range all {
		if n == 0 {
			continue
		}
		high := max(float64(n)/float64(most)*sparkHeight, 1)
		bad := float64(failed[i]) / float64(n) * high
		if failed[i] > 0 {
			bad = max(bad, 1)
		}
		s.Bars = append(s.Bars, Bar{
			X: float64(i) * slot, W: max(slot-1, 0.5), AllY: sparkHeight - high, AllH: high, BadY: sparkHeight - bad, BadH: bad,
		})
	}
	return s
}

// chartRow is a step of a chart in words.
type chartRow struct {
	At     string
	Values []string
}

// chartRows gives a chart's steps in words, the newest first.
func chartRows(c Chart) []chartRow {
	rows := make([]chartRow, 0, len(c.X))
	for i, x := range slices.Backward(c.X) {
		row := chartRow{At: time.Unix(x, 0).UTC().Format("Jan 2 15:04")}
		for _, line := range c.Series {
			value := "–"
			if v := line.Values[i]; v != nil {
				value = strconv.FormatFloat(*v, 'f', -1, 64)
			}
			row.Values = append(row.Values, value)
		}
		rows = append(rows, row)
	}
	return rows
}
