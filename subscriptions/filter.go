package subscriptions

import (
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/filter"
)

func checkFilter(text string) (string, error) {
	_, err := filter.Compile(text)
	return text, err //nolint:wrapcheck // a fault, in words for the caller
}

// unlessBlank takes an empty text for null.
func unlessBlank(o Optional[string]) Optional[string] {
	if o.Value != nil && *o.Value == "" {
		o.Value = nil
	}
	return o
}

// Passes says whether the candidate's filter, if it has one, lets an event pass that Match has let pass, and if not, why. An
// event's candidates are asked one after the other with one ev; read remembers what filters were read.
func (c Candidate) Passes(read *filter.Cache, ev *filter.Event) (passed bool, skip SkipReason, detail string) {
	if c.Filter == nil {
		return true, "", ""
	}
	f, err := read.Get(*c.Filter)
	if err == nil {
		passed, err = f.Match(ev)
	}
	switch {
	case err != nil: // also one that an earlier version took and that cannot be read any more
		return false, SkipFilterError, err.Error()
	case !passed:
		return false, SkipFilter, ""
	}
	return true, "", ""
}

// FilterSample is an event to try a filter on. Zero values stand for what the event has not.
type FilterSample struct {
	ID, UID, Type, GroupKey string
	CreatedAt               time.Time
	ContentType             string // "": application/json
	Payload                 []byte
}

// FilterResult is what a filter says of a sample.
type FilterResult struct {
	Matches bool
	Error   string // why it could not tell, which counts as no; "": it could
}

// TestFilter tries an expression on a sample, by the rules that hold for events. An expression that cannot be saved is an
// Invalid fault without a pointer; "" lets everything pass.
func TestFilter(expr string, s FilterSample) (FilterResult, error) {
	if expr == "" {
		return FilterResult{Matches: true}, nil
	}
	f, err := filter.Compile(expr)
	if err != nil {
		return FilterResult{}, fmt.Errorf("read a filter: %w", err)
	}
	matched, err := f.Match(&filter.Event{
		ID: func() string { return s.ID }, UID: s.UID, GroupKey: s.GroupKey, Type: s.Type, CreatedAt: s.CreatedAt,
		ContentType: s.ContentType, Payload: s.Payload,
	})
	result := FilterResult{Matches: matched}
	if err != nil {
		result.Error = err.Error()
	}
	return result, nil
}
