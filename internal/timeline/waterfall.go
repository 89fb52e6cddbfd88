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

// queuedShare is the most of the drawing that the wait before an attempt takes: an hour of it would leave the rest to nothing. What
// is longer is drawn no longer, and its figure says how long it was.
const queuedShare = 0.25

// Draw lays an attempt's stages out, after the wait that came before it (nil: unknown). What a kept-alive connection had no need
// of is left out; what is between the stages that were measured is waiting for the answer.
func Draw(waited *time.Duration, t dispatcher.Timings) Waterfall {
	if t.Total == nil || *t.Total <= 0 {
		return Waterfall{}
	}
	d := drawing{begins: fallLeft, scale: (fallWidth - fallLeft - fallRight) / float64(*t.Total), whole: *t.Total}
	if waited != nil && *waited > 0 {
		d.queue(*waited)
	}
	at := time.Duration(0)
	for _, s := range []struct {
		name, class string
		took        *time.Duration
	}{{"DNS", "dns", t.DNS}, {"connect", "connect", t.Connect}, {"TLS", "tls", t.TLS}} {
		if s.took != nil {
			d.add(s.name, s.class, at, *s.took)
			at += *s.took
		}
	}
	if t.FirstByte == nil {
		d.add("no answer", "none", at, *t.Total-at)
	} else {
		at = min(at, *t.FirstByte)
		d.add("first byte", "wait", at, *t.FirstByte-at)
		d.add("body", "body", *t.FirstByte, *t.Total-*t.FirstByte)
	}
	return Waterfall{Width: fallWidth, Height: len(d.rows) * fallRow, Rows: d.rows}
}

// drawing is a Waterfall that is being made.
type drawing struct {
	rows   []Stage
	begins float64 // where the attempt's own time does
	scale  float64 // of a nanosecond
	whole  time.Duration
}

// queue draws the wait before the attempt, and has the rest share what it leaves.
func (d *drawing) queue(waited time.Duration) {
	room := fallWidth - fallLeft - fallRight
	share := min(float64(waited)/float64(waited+d.whole), queuedShare)
	d.put("queued", "queued", waited, fallLeft, share*room)
	d.begins, d.scale = fallLeft+share*room, (1-share)*room/float64(d.whole)
}

// add draws a stage that began so long after the attempt.
func (d *drawing) add(name, class string, from, took time.Duration) {
	if took < 0 || from > d.whole {
		return
	}
	d.put(name, class, took, d.begins+float64(from)*d.scale, float64(took)*d.scale)
}

func (d *drawing) put(name, class string, took time.Duration, x, width float64) {
	y := float64(len(d.rows) * fallRow)
	d.rows = append(d.rows, Stage{
		Name: name, Class: class, Took: took, X: x, W: max(width, fallThin), Y: y + 3, TextY: y + fallTextUp,
	})
}
