// Package filter says whether an endpoint wants an event, by an expression in CEL (https://cel.dev) over `event` and
// `payload`. It is pure: no clock, no database, no network.
//
// An expression is a customer's own text that runs among everybody's events, so all of it is bounded: its length and its
// nesting when it is read, what it may cost when it is read and again when it runs, and what all of one event's filters may
// cost together. It cannot call out, loop without end or keep anything. One that fails does not match, and says why.
package filter

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"

	"github.com/postrider/postrider/internal/fault"
)

// The bounds. What a unit of cost stands for is CEL's to say: about a look at a value, or at ten characters of a text.
const (
	MaxLength = 2000 // characters of an expression
	// maxCost is what one filter may cost on one event.
	maxCost = 50_000
	// maxEventCost is what the filters of all endpoints may cost together on one event.
	maxEventCost = 200_000

	maxNodes   = 500
	maxNesting = 30
	maxLoops   = 2   // comprehensions within each other
	maxProgram = 200 // instructions of a regular expression
)

// Filter is an expression that was read. It may be used by several goroutines at once.
type Filter struct{ program cel.Program }

// Compile reads an expression. What is wrong with it is an Invalid fault without a pointer, in whose words the line and the
// column are.
func Compile(text string) (f *Filter, err error) {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return nil, refused("is not UTF-8, or holds the character NUL")
	}
	if utf8.RuneCountInString(text) > MaxLength {
		return nil, refused("has more than %d characters", MaxLength)
	}
	defer func() {
		if what := recover(); what != nil { // the library, over something it was not made for
			f, err = nil, refused("cannot be read as a CEL expression")
		}
	}()
	env, err := environment()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, explain(issues)
	}
	if kind := ast.OutputType(); !kind.IsExactType(cel.BoolType) && !kind.IsExactType(cel.DynType) {
		return nil, refused("has to say true or false; this is of the type %s", kind)
	}
	estimate, err := env.EstimateCost(ast, sizes{})
	if err != nil {
		return nil, fmt.Errorf("estimate the cost of a filter: %w", err)
	}
	if estimate.Max > maxCost {
		return nil, refused("may cost up to %d on a usual payload, and %d is the limit: loop over less, or not within a loop", estimate.Max, maxCost)
	}
	program, err := env.Program(ast, cel.CostLimit(maxCost), cel.CostTracking(prices{}), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, refused("cannot be used: %s", clean(err.Error()))
	}
	return &Filter{program}, nil
}

func refused(format string, args ...any) error {
	f := fault.InvalidAt("", format, args...)
	f.Detail = f.Fields[0].Detail
	return f
}

// explain tells of the first few faults, each with its place.
func explain(issues *cel.Issues) error {
	const most = 3
	var all fault.Fields
	for n, issue := range issues.Errors() {
		if n == most {
			break
		}
		line, column := issue.Location.Line(), issue.Location.Column()+1
		if line < 1 {
			all.Addf("", "%s", clean(issue.Message))
			continue
		}
		all.Addf("", "line %d, column %d: %s", line, column, clean(issue.Message))
	}
	if len(all) == 0 {
		all.Addf("", "%s", clean(issues.Err().Error()))
	}
	return all.Err()
}

// clean makes the library's words fit for a row and a line: they may repeat what was given.
func clean(text string) string {
	const most = 200
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c == utf8.RuneError || c == 0x7f {
			return ' '
		}
		return c
	}, strings.TrimSpace(text))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// errTooDear is what all filters of an event fail with once they have cost too much together.
var errTooDear = errors.New("the event's filters cost too much together")

// Match runs the filter on an event. An error says, in words for the endpoint's owner, why it could not tell.
func (f *Filter) Match(ev *Event) (matched bool, err error) {
	if ev.spent >= maxEventCost {
		return false, errTooDear
	}
	defer func() {
		if what := recover(); what != nil {
			matched, err = false, errors.New("the filter broke down on this event")
		}
	}()
	out, details, err := f.program.Eval(ev)
	spent := uint64(maxCost) // of one that was broken off
	if details != nil && details.ActualCost() != nil {
		spent = *details.ActualCost()
	}
	ev.spent += spent
	if err != nil {
		return false, errors.New(clean(err.Error()))
	}
	matched, is := out.Value().(bool)
	if !is {
		return false, fmt.Errorf("the filter says neither true nor false, but a value of the type %s", out.Type().TypeName())
	}
	return matched, nil
}
