package traceparent

import (
	"net/http"
	"strings"
	"testing"
)

const example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text, want string
	}{
		{"sampled", example, example},
		{"not sampled", strings.TrimSuffix(example, "1") + "0", strings.TrimSuffix(example, "1") + "0"},
		{"unknown flags", strings.TrimSuffix(example, "01") + "ff", example},
		{"a version to come", "cc" + example[2:] + "-what-the-future-will-be-like", example},
		{"a version to come, no more", "cc" + example[2:], example},
		{"none", "", ""},
		{"the version that is none", "ff" + example[2:], ""},
		{"version 00 with more", example + "-more", ""},
		{"a version to come, run on", "cc" + example[2:] + "more", ""},
		{"capitals", strings.ToUpper(example), ""},
		{"no trace", "00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01", ""},
		{"no span", "00-4bf92f3577b34da6a3ce929d0e0e4736-" + strings.Repeat("0", 16) + "-01", ""},
		{"not hexadecimal", strings.Replace(example, "4b", "4x", 1), ""},
		{"other dashes", strings.ReplaceAll(example, "-", "_"), ""},
		{"short", example[:54], ""},
	} {
		got, ok := Parse(c.text)
		if ok != (c.want != "") || ok && got.String() != c.want || !ok && got != (Context{}) {
			t.Errorf("%s: %v %v, want %q", c.name, got, ok, c.want)
		}
	}
}

func TestSeveralHeadersAreNone(t *testing.T) {
	t.Parallel()
	if _, ok := Of(http.Header{Header: {example}}); !ok {
		t.Error("one was not taken")
	}
	if _, ok := Of(http.Header{Header: {example, example}}); ok {
		t.Error("two were taken")
	}
}

func TestBytesComeBack(t *testing.T) {
	t.Parallel()
	c, _ := Parse(example)
	if got := FromBytes(c.Bytes()); got != c || len(c.Bytes()) != 25 || got.TraceID() != example[3:35] || !got.Sampled() {
		t.Errorf("%v of %d bytes", got, len(c.Bytes()))
	}
	if got := FromBytes([]byte("short")); got.Valid() || got.TraceID() != "" || got.Bytes() != nil {
		t.Errorf("%v of what is none", got)
	}
}

func TestContextCarriesIt(t *testing.T) {
	t.Parallel()
	c, _ := Parse(example)
	if got := From(With(t.Context(), c)); got != c {
		t.Errorf("%v", got)
	}
	if got := From(t.Context()); got.Valid() {
		t.Errorf("%v of nothing", got)
	}
}

// Every request and every attempt passes here, traced or not.
func TestNothingIsTakenWhereThereIsNone(t *testing.T) { //nolint:paralleltest // it counts allocations, of which there are others' then
	h, ctx := http.Header{}, t.Context()
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := Of(h); ok || From(ctx).Valid() || FromBytes(nil).Valid() {
			t.Error("something")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(example)
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := Parse(text)
		if !ok {
			return
		}
		if again, ok := Parse(c.String()); !ok || again != c {
			t.Errorf("%q is %v, which reads as %v", text, c, again)
		}
	})
}
