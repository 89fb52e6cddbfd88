package portal

import (
	"strings"

	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// snippet is code with which a receiver verifies requests, as it is shown to be copied.
type snippet struct{ Language, ID, Text string }

// languages are those that there are snippets in, with the endings of their files. Go's has another one than it ought to have, so
// that the go command does not take it for a part of the program.
var languages = []struct{ name, ending string }{{"Go", "go.txt"}, {"Node.js", "mjs"}, {"Python", "py"}, {"PHP", "php"}, {"Ruby", "rb"}}

// headerPlace stands in the snippets of the scheme stripe for the header that carries the signature.
const headerPlace = "signature-header-name"

// snippetsOf gives the snippets for an endpoint. Each is a file under templates/snippets; the tests run them as they are shown.
func snippetsOf(e subscriptions.Endpoint) []snippet {
	out := make([]snippet, 0, len(languages))
	for _, l := range languages {
		text, err := templates.ReadFile("templates/snippets/" + string(e.Scheme) + "." + l.ending)
		if err != nil {
			panic("portal: " + err.Error()) // a test reads each of them
		}
		header := strings.ToLower(signer.SignatureHeader(e.Scheme, e.SignatureHeader))
		out = append(out, snippet{l.name, "snippet-" + strings.TrimSuffix(l.ending, ".txt"), strings.ReplaceAll(string(text), headerPlace, header)})
	}
	return out
}
