package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
)

// What pages say in words of their own, they have words for.
func TestEveryKindHasWords(t *testing.T) {
	t.Parallel()
	for _, k := range append(alert.Kinds(), alert.ServiceKinds()...) {
		if w := alertWords[k]; w.title == "" || w.about == "" || w.remedy == "" {
			t.Errorf("%s: %+v", k, w)
		}
	}
	for _, k := range []audit.ActorKind{audit.ByKey, audit.ByUser, audit.ByPortal, audit.ByCLI, audit.BySystem} {
		if actorWords[k] == "" {
			t.Errorf("%s has none", k)
		}
	}
	for _, s := range auth.Scopes() {
		if scopeWords[s] == "" {
			t.Errorf("%s has none", s)
		}
	}
}

func TestTellingDetails(t *testing.T) {
	t.Parallel()
	for details, want := range map[string]string{
		`{}`: "", `null`: "", `[1]`: "", `"x"`: "",
		`{"name":"Acme","read_only":true,"n":9007199254740993}`:                            "n=9007199254740993 name=Acme read_only=true",
		`{"reason":"x","changes":{"status":{"old":"enabled","new":"dead"},"a":"changed"}}`: "a=changed status=enabled → dead reason=x",
		`{"changes":{"uid":{"old":null,"new":"a"},"types":{"old":["a","b"],"new":[]}}}`:    "types=a, b → none uid=none → a",
		`{"changes":{"d":{"old":"","new":{"k":1}}}}`:                                       `d=empty → {"k":1}`,
		`{"changes":7}`:      "changes=7",
		`{"dir":"a\u202eb"}`: `dir=a\u202eb`,
		`{"long":"` + strings.Repeat("x", 300) + `"}`: "long=" + strings.Repeat("x", saidLimit) + "…",
	} {
		var got []string
		for _, s := range tell(json.RawMessage(details)) {
			got = append(got, fmt.Sprintf("%s=%s", s.Name, s.Value))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s tells %q, not %q", details, text, want)
		}
	}
}
