package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/duration"
	"github.com/rs/zerolog"
)

// kind is a form that values have: how text becomes a T and how a T is shown. An error of parse is a sentence about the
// value that says what would be right; for a secret kind it does not repeat the value.
type kind[T any] struct {
	arg    string
	list   bool
	secret bool
	split  func(text string) []string
	parse  func(items []string) (T, error)
	show   func(T) any
}

// single makes a kind of one value.
func single[T any](arg string, parse func(string) (T, error), show func(T) any) kind[T] {
	return kind[T]{
		arg:   arg,
		split: func(text string) []string { return []string{text} },
		parse: func(items []string) (T, error) {
			if len(items) != 1 {
				var none T
				return none, errors.New("is a list, want one value")
			}
			return parse(items[0])
		},
		show: show,
	}
}

// listOf makes a kind of several values out of the kind of one.
func listOf[T any](one kind[T], split func(string) []string) kind[[]T] {
	return kind[[]T]{
		arg: one.arg + "s", list: true, secret: one.secret, split: split,
		parse: func(items []string) ([]T, error) {
			var list []T
			for i, item := range items {
				value, err := one.parse([]string{item})
				if err != nil {
					return nil, fmt.Errorf("item %d %w", i+1, err)
				}
				list = append(list, value)
			}
			return list, nil
		},
		show: func(list []T) any {
			shown := make([]string, len(list))
			for i, value := range list {
				shown[i] = fmt.Sprint(one.show(value))
			}
			return shown
		},
	}
}

// splitWords splits at commas and blanks. An item between two commas is kept, empty as it is, so that it is refused and
// not passed over.
func splitWords(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	var items []string
	for part := range strings.SplitSeq(text, ",") {
		words := strings.Fields(part)
		if len(words) == 0 {
			words = []string{""}
		}
		items = append(items, words...)
	}
	return items
}

// splitCommas splits at commas alone: names may have blanks in them. One with a comma takes a YAML list.
func splitCommas(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	items := strings.Split(text, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}

func textKind(arg string) kind[string] {
	return single(arg, func(text string) (string, error) { return text, nil }, func(text string) any { return text })
}

var boolKind = single("bool", func(text string) (bool, error) {
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s is neither true nor false", quote(text))
	}
	return value, nil
}, func(value bool) any { return value })

func intKind[T int | int32](arg string) kind[T] {
	return single(arg, func(text string) (T, error) {
		// 32 bits hold every sensible count, on every platform alike.
		value, err := strconv.ParseInt(text, 10, 32)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return 0, fmt.Errorf("%s is out of range, want a whole number below 2147483648", quote(text))
		case err != nil:
			return 0, fmt.Errorf("%s is not a whole number", quote(text))
		}
		return T(value), nil
	}, func(value T) any { return value })
}

var fractionKind = single("number", func(text string) (float64, error) {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a number, want one such as 0.1", quote(text))
	}
	return value, nil
}, func(value float64) any { return value })

var durationKind = single("duration", duration.Parse, func(d time.Duration) any { return duration.Format(d) })

var sizeKind = single("size", parseSize, func(bytes int64) any { return formatSize(bytes) })

// levels are zerolog's. Its own parser takes numbers, capitals and nothing at all too, which hides typing errors.
var levels = []zerolog.Level{
	zerolog.TraceLevel, zerolog.DebugLevel, zerolog.InfoLevel, zerolog.WarnLevel, zerolog.ErrorLevel,
	zerolog.FatalLevel, zerolog.PanicLevel, zerolog.Disabled,
}

var levelKind = single("level", func(text string) (zerolog.Level, error) {
	names := make([]string, len(levels))
	for i, level := range levels {
		if names[i] = level.String(); names[i] == text {
			return level, nil
		}
	}
	return zerolog.NoLevel, fmt.Errorf("%s is no level, want one of %s", quote(text), strings.Join(names, ", "))
}, func(level zerolog.Level) any { return level.String() })

// quote repeats a refused value in one line, and not more of it than a line can bear.
func quote(text string) string {
	const limit = 60
	switch {
	case text == "":
		return "the empty text"
	case len(text) > limit:
		return strconv.Quote(text[:limit]) + "…"
	}
	return strconv.Quote(text)
}
