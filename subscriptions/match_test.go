package subscriptions_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/postrider/postrider/subscriptions"
)

func TestMatchPattern(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, eventType string
		want               bool
	}{
		{"order.paid", "order.paid", true},
		{"order.paid", "order.paid.late", false},
		{"order.paid", "order", false},
		{"order.paid", "Order.paid", false},
		{"order.paid", "orderxpaid", false},
		{"order.*", "order.paid", true},
		{"order.*", "order.paid.late", true},
		{"order.*", "order.paid.late.again", true},
		{"order.*", "order", false},
		{"order.*", "order.", false}, // a segment has something in it
		{"order.*", "orders.paid", false},
		{"order.*", "ORDER.paid", false},
		{"order.*", "my.order.paid", false},
		{"order.paid.*", "order.paid", false},
		{"order.paid.*", "order.paid.late", true},
		{"order.paid.*", "order.refunded.late", false},
		{"*", "order", true},
		{"*", "order.paid.late", true},
		{"order", "order.paid", false},
		{"a-b_c.*", "a-b_c.d", true},
		{"a-b_c.*", "a-b.c.d", false},
	} {
		if err := subscriptions.CheckPattern(test.pattern); err != nil {
			t.Errorf("%q is refused: %v", test.pattern, err)
		}
		if got := subscriptions.MatchPattern(test.pattern, test.eventType); got != test.want {
			t.Errorf("MatchPattern(%q, %q) = %v", test.pattern, test.eventType, got)
		}
	}
}

func TestCheckPattern(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 128)
	for _, good := range []string{"*", "a", "order.paid", "order.*", "A_b-c.9", long, long + ".*", "order..paid", "-", "a.b.*"} {
		if err := subscriptions.CheckPattern(good); err != nil {
			t.Errorf("%q is refused: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", ".*", "**", "*.*", "*.paid", "order.*.late", "order*", "order.**", "order.*.*", "o rder", " order", "order\n",
		"order.*\n", "order/paid", "ordér", "order.\x00", "\xff", long + "x", long + "x.*", "order.%",
	} {
		if subscriptions.CheckPattern(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestCandidateMatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		patterns []string
		status   subscriptions.Status
		matched  bool
		skip     subscriptions.SkipReason
	}{
		{"no patterns want all", nil, subscriptions.Enabled, true, ""},
		{"one of several", []string{"a", "order.*"}, subscriptions.Enabled, true, ""},
		{"several of several", []string{"order.*", "order.paid"}, subscriptions.Enabled, true, ""},
		{"none of several", []string{"a", "order.paid.*"}, subscriptions.Enabled, false, subscriptions.SkipEventType},
		{"disabled matches: its deliveries are held", nil, subscriptions.Disabled, true, ""},
		{"disabled, another type", []string{"a"}, subscriptions.Disabled, false, subscriptions.SkipEventType},
		{"dead", []string{"order.*"}, subscriptions.Dead, false, subscriptions.SkipDead},
		{"dead, another type", []string{"a"}, subscriptions.Dead, false, subscriptions.SkipEventType},
	} {
		c := subscriptions.Candidate{EventTypes: test.patterns, Status: test.status}
		matched, skip := c.Match("order.paid")
		if matched != test.matched || skip != test.skip {
			t.Errorf("%s: %v, %q", test.name, matched, skip)
		}
	}
}

// matches is the rule of CONTRACT §3 by segments: a pattern is a type, or segments with a * behind that stands for one or more
// further ones. Segments may be empty, since a type may have dots anywhere; but something has to follow the last dot.
func matches(pattern, eventType []string) bool {
	switch {
	case len(pattern) == 1 && pattern[0] == "*":
		return len(eventType) > 0 && strings.Join(eventType, ".") != ""
	case len(pattern) == 0 || len(eventType) == 0:
		return len(pattern) == len(eventType)
	}
	return pattern[0] == eventType[0] && matches(pattern[1:], eventType[1:])
}

// Whatever CheckPattern takes obeys the rule, and nothing else is taken.
func FuzzMatchPattern(f *testing.F) {
	for _, seed := range [][2]string{
		{"order.*", "order.paid"},
		{"*", "x"},
		{"order.paid", "order.paid"},
		{"order.*", "order"},
		{"order.*", "order."},
		{"order.*", "order.."},
		{"order..*", "order..a"},
		{".*", ".a"},
		{"*", "."},
		{"a.*", "a.b.c"},
		{"a*", "ab"},
		{"A.*", "a.b"},
		{"a.*.c", "a.b.c"},
		{"", ""},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, eventType string) {
		stem, wild := strings.CutSuffix(pattern, "*")
		named := strings.TrimSuffix(stem, ".")
		sound := pattern == "*" || isType(pattern) || wild && stem != named && isType(named)
		if taken := subscriptions.CheckPattern(pattern) == nil; taken != sound {
			t.Fatalf("the pattern %q is taken: %v", pattern, taken)
		}
		if !sound || !isType(eventType) {
			return
		}
		want := matches(strings.Split(pattern, "."), strings.Split(eventType, "."))
		if got := subscriptions.MatchPattern(pattern, eventType); got != want {
			t.Errorf("MatchPattern(%q, %q) = %v", pattern, eventType, got)
		}
	})
}

// isType reports whether a text has the form of an event type.
func isType(text string) bool {
	return text != "" && len(text) <= 128 && !strings.ContainsFunc(text, func(r rune) bool {
		return r > 'z' || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", r)
	})
}

func ExampleMatchPattern() {
	for _, eventType := range []string{"order.paid", "order.paid.late", "order"} {
		fmt.Println(eventType, subscriptions.MatchPattern("order.*", eventType))
	}
	// Output:
	// order.paid true
	// order.paid.late true
	// order false
}
