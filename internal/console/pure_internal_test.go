package console

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/signer"
)

// Whatever is in a request, the shell and curl take it as it is. The real curl prints what it would send.
func TestCurlIsOneWordAfterTheOther(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"quotes": `{"it's": "$(rm -rf x) ` + "`id`" + ` \\ \n !"}`, "an at": "@/etc/passwd", "a NUL": "a\x00b", "nothing": "", "bytes": "\xff\xfe",
	} {
		command := curl(dispatcher.Request{
			URL: "https://hooks.example/in?a=[1-3]&b={x,y}'", Body: []byte(body),
			Headers: []signer.Header{{Name: "X-Own", Value: `it's "so"; $HOME`}, {Name: "X-Empty"}},
		})
		// curl is a function here that writes its arguments, so that what arrives is seen and nothing is sent.
		script := "curl() { printf '%s\\n' \"$@\"; case \" $* \" in *' @- '*) cat;; esac; }\n" + command
		out, err := exec.CommandContext(context.Background(), "sh", "-c", script).Output()
		if err != nil {
			t.Fatalf("%s: %v in %s", name, err, command)
		}
		for _, want := range []string{"https://hooks.example/in?a=[1-3]&b={x,y}'\n", `X-Own: it's "so"; $HOME`, "X-Empty;\n", body} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: %q is not in what arrives: %q", name, want, out)
			}
		}
	}
}
