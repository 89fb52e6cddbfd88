package main

import (
	"encoding/json"
	"testing"
)

func TestDetailsAreShownInFull(t *testing.T) {
	t.Parallel()
	for object, want := range map[string]string{
		`{}`:                        ``,
		`{"overlap":"24h"}`:         `"overlap":"24h"`,
		`{"changes":{"a":{"b":1}}}`: `"changes":{"a":{"b":1}}`,
	} {
		if got := details(json.RawMessage(object)); got != want {
			t.Errorf("%s is shown as %s, not %s", object, got, want)
		}
	}
}
