package filter_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/filter"
)

func event(payload string) *filter.Event {
	return &filter.Event{
		ID: func() string { return "evt_1" }, Type: "order.paid", UID: "u1",
		CreatedAt: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Payload: []byte(payload),
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	const payload = `{"amount":150,"price":49.9,"country":"DE","lines":[{"sku":"a"},{"sku":"b"}],"big":9007199254740993,"nul":null}`
	for expr, want := range map[string]bool{
		`true`:                                                     true,
		`payload.amount > 100`:                                     true,
		`payload.amount > 100.5`:                                   true,
		`payload.amount == 150`:                                    true,
		`payload.amount != 150`:                                    false,
		`payload.amount in [1, 150]`:                               true,
		`payload.price < 50`:                                       true,
		`payload.country in ["DE", "AT"]`:                          true,
		`payload["country"] == "DE"`:                               true,
		`payload.country.startsWith("D")`:                          true,
		`payload.country.matches("^[A-Z]+$")`:                      true,
		`payload.lines.exists(l, l.sku == "b")`:                    true,
		`payload.lines.all(l, l.sku == "b")`:                       false,
		`size(payload.lines) == 2`:                                 true,
		`has(payload.discount)`:                                    false,
		`has(payload.discount) && payload.discount > 1`:            false,
		`payload.nul == null`:                                      true,
		`payload == null`:                                          false,
		`event.type == "order.paid"`:                               true,
		`event.type.startsWith("order.") && payload.amount >= 150`: true,
		`event.id == "evt_1" && event.uid == "u1"`:                 true,
		`event.group_key == null && !has(event.group_key)`:         true,
		`has(event.uid)`:                                           true,
		`event.created_at > timestamp("2026-11-01T00:00:00Z")`:     true,
		`event.created_at.getHours() == 12`:                        true,
		`event.created_at - duration("1h") < timestamp("2026-11-30T11:30:00Z")`: true,
		`payload.amount > 100 && payload.country in ["EUR", "DE"]`:              true, // the README's
		`event.type == "order.open" || has(payload.urgent) && payload.urgent`:   false,
		`payload.lines.exists(line, line.sku.startsWith("b"))`:                  true,
		"\n  payload.amount >\n 100 // a remark":                                true,
	} {
		f, err := filter.Compile(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		if got, err := f.Match(event(payload)); err != nil || got != want {
			t.Errorf("%s: %v, %v", expr, got, err)
		}
	}
}

// What an expression cannot tell of an event is no match, with a reason.
func TestMatchFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expr, payload, why string }{
		{`payload.amount > 1`, `{}`, "no such key: amount"},
		{`payload.amount > 1`, `{"amount":"12"}`, "no such overload"},
		{`payload.amount`, `{"amount":"12"}`, "neither true nor false, but a value of the type string"},
		{`payload.a.b == 1`, `null`, "no such"},
		{`payload[5] == 1`, `[1]`, "index out of bounds"},
		{`event.group_key.startsWith("a")`, `{}`, "no such overload"},
		{`event == event && payload.x`, `{"x":true}`, "unsupported"},
		{`timestamp(payload.t) > event.created_at`, `{"t":"never"}`, ""},
		{`payload["\u0000"] == 1`, `{}`, "no such key:"},
	} {
		f, err := filter.Compile(c.expr)
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		got, err := f.Match(event(c.payload))
		if got || err == nil || !strings.Contains(err.Error(), c.why) || strings.ContainsAny(err.Error(), "\x00\n") {
			t.Errorf("%s on %s: %v, %v, want %s", c.expr, c.payload, got, err, c.why)
		}
	}
}

// A payload that is not JSON is null to a filter.
func TestPayloadsThatAreNotJSON(t *testing.T) {
	t.Parallel()
	f, err := filter.Compile(`payload == null`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		contentType, payload string
		null                 bool
	}{
		{"", `{}`, false},
		{"application/json; charset=utf-8", `{}`, false},
		{"application/cloudevents+json", `{}`, false},
		{"application/json", `null`, true},
		{"application/json", `{`, true},
		{"application/json", ``, true},
		{"application/json", `1e999`, true},
		{"text/plain", `{}`, true},
		{"application/xml", `<a/>`, true},
		{"///", `{}`, true},
	} {
		ev := event(c.payload)
		ev.ContentType = c.contentType
		if got, err := f.Match(ev); err != nil || got != c.null {
			t.Errorf("%s %s: %v, %v", c.contentType, c.payload, got, err)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		``:                                      "",
		`payload.amount >`:                      "line 1, column 17: ",
		"true &&\n  event.tpye == 'a'":          "line 2, column 8: undefined field 'tpye'",
		`order.amount > 1`:                      "line 1, column 1: undeclared reference to 'order'",
		`event.type`:                            "has to say true or false",
		`1`:                                     "has to say true or false; this is of the type int",
		`event.type > 1`:                        "line 1, column 12: found no matching overload",
		`event.type.matches("(")`:               "line 1, column ",
		`timestamp("never") < event.created_at`: "line 1, column ",
		`payload.s.matches("((((((a{9}){9}){9}){9}){9}){9})")`:       "",
		`event.type.matches("` + strings.Repeat("a?", 150) + `")`:    "",
		strings.Repeat("(", 600) + "true" + strings.Repeat(")", 600): "",
		"true" + strings.Repeat(" && payload.a", 300):                "has more than 2000 characters",
		"true" + strings.Repeat("&&true", 300):                       "",
		"\xff":                                                       "is not UTF-8",
		"true\x00":                                                   "is not UTF-8, or holds the character NUL",
		`payload.a.all(a, payload.b.all(b, payload.c.all(c, true)))`: "",
		`payload.a.all(a, payload.b.all(b, a.matches("^[a-z]+$") && b.contains(a) && a.contains(b)))`: "may cost up to ",
	} {
		_, err := filter.Compile(expr)
		var f *fault.Error
		if !errors.As(err, &f) || f.Code != fault.Invalid || len(f.Fields) == 0 || !strings.HasPrefix(f.Fields[0].Detail, want) {
			t.Errorf("%.60q: %v, want %s", expr, err, want)
			continue
		}
		if len(f.Fields[0].Detail) > 400 || f.Fields[0].Pointer != "" {
			t.Errorf("%.60q: %+v", expr, f.Fields)
		}
	}
}

// What is dear on this payload ends at the limit.
func TestCostIsBounded(t *testing.T) {
	t.Parallel()
	many := "[" + strings.Repeat("1,", 9999) + "1]"
	for expr, payload := range map[string]string{
		`payload.all(a, payload.all(b, a >= b))`:           many,
		`payload.s.matches("(a|b|c)*d")`:                   `{"s":"` + strings.Repeat("abc", 300_000) + `"}`,
		`payload.x == payload.x && payload.x == payload.x`: `{"x":[` + strings.Repeat(many+",", 90) + `1]}`,
		`payload.x in payload.y`:                           `{"x":` + many + `,"y":[` + strings.Repeat(many+",", 90) + `1]}`,
	} {
		f, err := filter.Compile(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		ev := event(payload)
		if got, err := f.Match(ev); got || err == nil || !strings.Contains(err.Error(), "cost limit exceeded") {
			t.Errorf("%s: %v, %v", expr, got, err)
		}
	}
}

// All of an event's filters share one budget.
func TestEventsBudget(t *testing.T) {
	t.Parallel()
	for _, size := range []int{5_000, 100_000} { // of the second, each is broken off
		f, err := filter.Compile(`payload.all(a, a > 0)`)
		if err != nil {
			t.Fatal(err)
		}
		ev := event("[" + strings.Repeat("1,", size) + "1]")
		ran := 0
		for ; ran < 1000; ran++ {
			if _, err := f.Match(ev); err != nil && strings.Contains(err.Error(), "too much together") {
				break
			}
		}
		if ran < 4 || ran == 1000 {
			t.Errorf("%d filters ran over %d values", ran, size)
		}
	}
}

func TestCache(t *testing.T) {
	t.Parallel()
	var c filter.Cache
	one, err := c.Get(`payload.a == 1`)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := c.Get(`payload.a == 1`); again != one {
		t.Error("it was read twice")
	}
	if _, err := c.Get(`payload.`); err == nil {
		t.Error("no fault")
	}
	if _, err := c.Get(`payload.`); err == nil {
		t.Error("the fault is forgotten")
	}
}

func FuzzCompileAndMatch(f *testing.F) {
	f.Add(`payload.lines.exists(l, l.sku == "b") && event.type.startsWith("order.")`, []byte(`{"lines":[{"sku":"b"}]}`))
	f.Add(`payload.amount * 2.0 > 1 || has(payload.x)`, []byte(`{"amount":1e300}`))
	f.Add(`event.uid + "x" == payload.s.replace("a", "b")`, []byte(`null`))
	f.Fuzz(func(t *testing.T, text string, payload []byte) {
		compiled, err := filter.Compile(text)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
			return
		}
		if matched, err := compiled.Match(event(string(payload))); err != nil && (matched || strings.ContainsRune(err.Error(), 0)) {
			t.Fatalf("%v, %q", matched, err)
		}
	})
}

func ExampleFilter_Match() {
	f, _ := filter.Compile(`event.type == "order.paid" && payload.total > 100`)
	matched, err := f.Match(&filter.Event{Type: "order.paid", Payload: []byte(`{"total": 120.5}`)})
	fmt.Println(matched, err)
	// Output: true <nil>
}
