package api

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestReadTree(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		`{"a.b":[1,{"c/d":null}],"e":true}`: map[string]any{"a~2b": []any{1.0, map[string]any{"c~1d": nil}}, "e": true},
		` "x" `:                             "x",
		`-0`:                                0.0,
		`0e-999`:                            0.0,
		`[]`:                                []any{},
		`{"payload":{"a":1,"a":2}}`:         map[string]any{"payload": true},
		"{\"payload\":\"\xff\\u0000\"}":     map[string]any{"payload": true},
		`{"payload":1e999,"b":"é"}`:         map[string]any{"payload": true, "b": "é"},
		`{"events":[{"payload":1e999}]}`:    map[string]any{"events": []any{map[string]any{"payload": true}}},
		`{"m":{"payload":"x"}}`:             map[string]any{"m": map[string]any{"payload": "x"}},
	} {
		got, err := readTree([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		``: "breaks off", `{`: "breaks off", `{"a"`: "breaks off", `{"payload":`: "breaks off", `{"payload":[1`: "breaks off",
		`{"a":1} {}`: "follows", `nix`: "not JSON", `{"a":1,}`: "not JSON", `[1 2]`: "not JSON", `{"payload":nix}`: "not JSON",
		`{1:2}`: "not JSON", `[01]`: "not JSON", "\ufeff{}": "not JSON", `{"a":1]`: "not JSON",
		`{"a":1,"a":1}`: "/a: the name is given twice", `{"a":1,"\u0061":1}`: "twice", `{"payload":1,"payload":1}`: "twice",
		`{"x.y":{"b":"\u0000"}}`: "/x.y/b: holds a NUL", `{"\u0000":1}`: "NUL", `{"m":{"payload":"\u0000"}}`: "NUL",
		`{"events":[{"m":{"payload":1e999}}]}`: "/events/0/m/payload: the number is out of range",
		`{"n":[1e999]}`:                        "/n/0: the number", `{"n":-1e999}`: "out of range", `{"n":1e-999}`: "out of range",
		"{\"a\":\"\xff\"}": "not UTF-8", "{\"payload\":1,\"a\":\"\xff\"}": "not UTF-8", "{\"a\":\"\xff\",\"payload\":1}": "not UTF-8",
		strings.Repeat("[", 100): "deeper", strings.Repeat(`{"a":`, 100): "deeper",
		`{"payload":` + strings.Repeat("[", 20000): "depth",
	} {
		if got, err := readTree([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %#v, %v; not %q", text, got, err, want)
		}
	}
}

// Whatever readTree takes, encoding/json takes as well and finds the same in it; nothing makes it panic.
func FuzzReadTree(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"x",null,{"b.c":true}]}`, `{"payload":{"a":1,"a":"\u0000"}}`, `{"events":[{"payload":1}]}`, "[1e5]", "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := readTree(data)
		if err != nil {
			return
		}
		var want any
		if err := json.Unmarshal(data, &want); err != nil {
			if strings.Contains(err.Error(), "cannot unmarshal number") && strings.Contains(string(data), "payload") {
				return // a payload may hold numbers that no float64 holds
			}
			t.Fatalf("%q is taken, though %v", data, err)
		}
		if !strings.Contains(string(data), "pay") && !strings.Contains(string(data), `\u`) {
			if !reflect.DeepEqual(got, quoteKeys(want)) || !utf8.Valid(data) {
				t.Fatalf("%q: %#v, not %#v", data, got, want)
			}
		}
	})
}

func quoteKeys(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, member := range v {
			out[quoteKey(key)] = quoteKeys(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = quoteKeys(item)
		}
		return out
	}
	return v
}

func TestPointer(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]string{
		"body": "", "body.url": "/url", "body.events[3].type": "/events/3/type", "body[2].a": "/2/a", "body[2]": "/2",
		"body.a[1][2]": "/a/1/2", "query.limit": "?limit", "query.state[1]": "?state", "path.evt": "/evt",
		"body." + quoteKey("a.b/c~d[e]"): "/a.b~1c~0d[e]", "body." + quoteKey("~2"): "/~02", "body.x." + quoteKey(""): "/x/",
	} {
		if got := pointer(location); got != want {
			t.Errorf("%q: %q, not %q", location, got, want)
		}
	}
}
