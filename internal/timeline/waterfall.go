// Package timeline lays out what became of a delivery over time, for the pages that show it to support staff and to tenants: its
// attempts, the stages of each, the schedule of its retries; and how an endpoint has been. It is pure, and leaves it to the caller what a reader may see.
package timeline

import (
	"time"

	"github.com/postrider/postrider/dispatcher"
)

// Waterfall is an attempt's stages where they lay in time, ready to be drawn: lengths are of a drawing that is so wide.
type Waterfall struct {
	Width, Height int
	Rows          []Stage
}

// Stage is one bar of it.
type Stage struct {
	Name, Class string
	Took        time.Duration
	X, Y, W     float64
	TextY       float64
}

// The drawing's measures: names at the left, figures at the right, bars between them.
const (
	fallWidth  = 640
	fallLeft   = 80.0
	fallRight  = 70.0
	fallRow    = 18
	fallThin   = 1.5 // what took next to nothing is still seen
	fallTextUp = 12
)

// Draw lays an attempt's stages out. What a kept-alive connection had no need of is left out; what is between the stages that
// were measured is waiting for the answer.
func Draw(t dispatcher.Timings) Waterfall {
	if t.Total == nil || *t.Total <= 0 {
		return Waterfall{}
	}
	w := Waterfall{Width: fallWidth}
	scale := (fallWidth - fallLeft - fallRight) / float64(*t.Total)
	at := time.Duration(0)
	add := func(name, class string, from, took time.Duration) {
		if took < 0 || from > *t.Total {
			return
		}
		y := float64(len(w.Rows) * fallRow)
		w.Rows = append(w.Rows, Stage{
			Name: name, Class: class, Took: took, X: fallLeft + float64(from)*scale, W: max(float64(took)*scale, fallThin), Y: y + 3,
			TextY: y + fallTextUp,
		})
	}
	for _, s := range []struct {
		name, class string
		took        *time.Duration
	}{{"DNS", "dns", t.DNS}, {"connect", "connect", t.Connect}, {"TLS", "tls", t.TLS}} {
		if s.took != nil {
			add(s.name, s.class, at, *s.took)
			at += *s.took
		}
	}
	if t.FirstByte == nil {
		add("no answer", "queued", at, *t.Total-at)
	} else {
		at = min(at, *t.FirstByte)
		add("first byte", "wait", at, *t.FirstByte-at)
		add("body", "body", *t.FirstByte, *t.Total-*t.FirstByte)
	}
	w.Height = len(w.Rows) * fallRow
	return w
}
