package alert

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A canary in every part of a service URL that can hold a secret: no error text may show it, whatever a service makes of
// the URL.
func TestErrorsTellNoSecret(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"slack://hook:WNA3CANARY-F20CANARY-Webc4CANARYakrpPakR8phF0zi@webhook",
		"telegram://110201543:AAHdqCANARY@telegram?chats=@CANARYchat",
		"discord://CANARYtoken@123456789",
		"smtp://CANARYuser:CANARY%2Fpass@smtp.example.com:587/?from=a@example.com&to=CANARY@example.com",
		"generic://CANARYhost.example.com/path/CANARY?@Authorization=Bearer+CANARY",
		"pushover://shoutrrr:CANARYtoken@CANARYuser/",
	} {
		t.Run(raw[:5], func(t *testing.T) {
			t.Parallel()
			strip := redactor(raw)
			for _, text := range []string{
				raw,
				`Post "https://hooks.slack.com/services/` + raw[8:] + `": dial tcp: connection refused`,
				"bad part " + strings.NewReplacer(":", " ", "@", " ", "?", " ", "&", " ", "=", " ").Replace(raw),
			} {
				if got := strip(text); strings.Contains(got, "CANARY") {
					t.Errorf("%q becomes %q", text, got)
				}
			}
		})
	}
	if got := redactor("generic://example.com/x")("server returned 500 Internal Server Error"); got != "server returned 500 Internal Server Error" {
		t.Errorf("a harmless text becomes %q", got)
	}
	if got := redactor("generic://example.com/x")(strings.Repeat("ü", 500)); len(got) > maxError+10 {
		t.Errorf("%d bytes are kept", len(got))
	}
}

func TestRetryDelays(t *testing.T) {
	t.Parallel()
	var total time.Duration
	var all []string
	for try := range maxTries - 1 {
		d := retryDelay(try + 1)
		total += d
		if try < 9 {
			all = append(all, d.String())
		}
	}
	got := fmt.Sprint(strings.Join(all, " "), " … ", total)
	if want := "30s 1m0s 2m0s 4m0s 8m0s 16m0s 32m0s 1h0m0s 1h0m0s … 13h3m30s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := retryDelay(0); got != 30*time.Second {
		t.Errorf("the delay after no try is %v", got)
	}
}
