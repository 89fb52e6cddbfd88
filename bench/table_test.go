package main

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	t.Parallel()
	tab := &table{}
	for _, v := range []float64{0.9, 0.2, 0.7} {
		tab.add(measurement{name: "fast", got: v, unit: "×", want: atLeast(0.7)})
		tab.add(measurement{name: "small", got: v, unit: "s", want: atMost(0.6)})
		tab.add(measurement{name: "known", got: v})
	}
	var out strings.Builder
	tab.print(&out)
	want := map[string][]string{
		"fast":  {"fast", "0.700", "0.200", "0.900", "×", "≥", "0.7", "yes"},
		"small": {"small", "0.700", "0.200", "0.900", "s", "≤", "0.6", "NO"},
		"known": {"known", "0.700", "0.200", "0.900"},
	}
	for line := range strings.Lines(out.String()) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if w, ok := want[fields[0]]; ok && strings.Join(fields, " ") != strings.Join(w, " ") {
			t.Errorf("%q, want %q", fields, w)
		}
		delete(want, fields[0])
	}
	if len(want) > 0 || !strings.HasSuffix(out.String(), "1 of 2 are met\n") {
		t.Errorf("%v are missing in\n%s", want, out.String())
	}
	if m := median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("the median of four is %v", m)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	for list, n := range map[string]int{"": len(parts()), "drain": 1, "steady,drain": 2} {
		if got, err := choose(list); err != nil || len(got) != n {
			t.Errorf("%q: %d, %v", list, len(got), err)
		}
	}
	if _, err := choose("drain,dry"); err == nil || !strings.Contains(err.Error(), "dry") {
		t.Error(err)
	}
}
