package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider/internal/duration"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/subscriptions"
)

// timeForm is RFC 3339 in UTC with exactly milliseconds: all times that are shown look alike, and sort as text.
const timeForm = "2006-01-02T15:04:05.000Z"

// stamp is a time in an answer.
type stamp time.Time

// MarshalJSON writes timeForm.
func (s stamp) MarshalJSON() ([]byte, error) {
	return []byte(`"` + time.Time(s).UTC().Format(timeForm) + `"`), nil
}

// Schema documents the form.
func (stamp) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Examples: []any{"2026-11-30T09:00:00.000Z"}}
}

// stampOf is for times that may not be.
func stampOf(t *time.Time) *stamp { return (*stamp)(t) }

// parseTime reads a time that the schema has passed as RFC 3339; "" is none.
func parseTime(faults *fault.Fields, at, text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		faults.Addf(at, "is no time of the form 2026-11-30T09:00:00Z")
		return time.Time{}
	}
	return t.UTC()
}

// optional is one field of a PATCH, which follows RFC 7396: absent keeps what is, null goes back to the default.
type optional[T any] struct{ subscriptions.Optional[T] }

// UnmarshalJSON is called only for what is there.
func (o *optional[T]) UnmarshalJSON(b []byte) error {
	o.Given, o.Value = true, nil
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	o.Value = new(T)
	if err := json.Unmarshal(b, o.Value); err != nil {
		return fmt.Errorf("read a field: %w", err)
	}
	return nil
}

// Schema is the value's own; that null is taken as well is for the field's tag to say.
func (optional[T]) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, "")
}

// convert is an Optional of another type. A value that cannot be read is noted by read, and counts as not given.
func convert[A, B any](o optional[A], read func(A) (B, bool)) subscriptions.Optional[B] {
	out := subscriptions.Optional[B]{Given: o.Given}
	if o.Value == nil {
		return out
	}
	v, ok := read(*o.Value)
	if !ok {
		return subscriptions.Optional[B]{}
	}
	out.Value = &v
	return out
}

// metadata is a JSON object whose numbers keep their digits.
type metadata map[string]any

// UnmarshalJSON reads numbers as json.Number.
func (m *metadata) UnmarshalJSON(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode((*map[string]any)(m)); err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	return nil
}

// shown is metadata for an answer, never null.
func shown(m map[string]any) metadata {
	if m == nil {
		return metadata{}
	}
	return m
}

// whole is an integer as JSON Schema has it: 5, 5.0 and 5e0 are the same number.
type whole int

// UnmarshalJSON reads what the schema has passed as an integer. What is vast is cut to a number that is still beyond all
// bounds we have, so that whoever knows the bound says so.
func (w *whole) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return errors.New("expected integer")
	}
	*w = whole(max(min(f, math.MaxInt32), math.MinInt32))
	return nil
}

// parseSpan reads a duration such as "15s".
func parseSpan(faults *fault.Fields, at, text string) (time.Duration, bool) {
	d, err := duration.Parse(text)
	faults.Add(at, err)
	return d, err == nil
}

// spanWithin reads one that has bounds; "" leaves what is there.
func spanWithin(faults *fault.Fields, at, text string, least, most time.Duration, into *time.Duration) {
	if text == "" {
		return
	}
	d, ok := parseSpan(faults, at, text)
	if ok && (d < least || d > most) {
		faults.Addf(at, "is not between %s and %s", duration.Format(least), duration.Format(most))
	}
	*into = d
}

func formatSpan(d *time.Duration) *string {
	if d == nil {
		return nil
	}
	text := duration.Format(*d)
	return &text
}
