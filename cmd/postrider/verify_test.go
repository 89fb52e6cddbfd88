package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	vectorSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	vectorHead   = "POST /hook HTTP/1.1\r\nHost: x\r\nwebhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek\r\nwebhook-timestamp: 1614265330\r\n" +
		"webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=\r\n\r\n"
	vectorTime = "2021-02-25T15:02:12Z"
)

func TestVerifyJudgesACapture(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(vectorSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const body = `{"test": 2432232314}`
	at := "--at " + vectorTime
	for name, c := range map[string]struct {
		environ     []string
		stdin, args string
		code        int
		says        string
	}{
		"verified":          {nil, vectorHead + body, "--file - --secret " + vectorSecret + " " + at, exitDone, "verified by --secret, scheme standard, signed 2s ago (2021-02-25T15:02:10Z)\n"},
		"by a file":         {nil, vectorHead + body, "--file - --any-time --secret-file " + file, exitDone, "verified by the secret in " + file},
		"by a variable":     {[]string{verifyVariable + "=" + vectorSecret}, vectorHead + body, "--file - " + at, exitDone, "verified by " + verifyVariable},
		"by the second one": {nil, vectorHead + body, "--file - --secret whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD --secret " + vectorSecret + " " + at, exitDone, "verified by --secret (number 2)"},
		"too old":           {nil, vectorHead + body, "--file - --secret " + vectorSecret, exitFailed, "timestamp_old: it was signed 2103 days ago (2021-02-25T15:02:10Z); allowed are 5m0s; the signature itself is right\n  → "},
		"within reason":     {nil, vectorHead + body, "--file - --tolerance 2500d --secret " + vectorSecret, exitDone, "verified"},
		"a changed body":    {nil, vectorHead + `{"test":2432232314}`, "--file - --secret " + vectorSecret + " " + at, exitFailed, "body_rewritten: the body was parsed and written again; signed was JSON with a blank after , and :"},
		"no secret":         {nil, vectorHead + body, "--file - " + at, exitFailed, "no_secret: "},
		"no request":        {nil, "{}", "--file - --secret x", exitUsage, "the request in - cannot be read: line 1: this is no header"},
		"nothing":           {nil, "", "--secret x", exitUsage, "--file, or --header and --body, is missing"},
		"two captures":      {nil, "", "--file - --body x", exitUsage, "--file has the whole request"},
		"two bodies":        {nil, "", "--header a:b --body-file - --body x", exitUsage, "two ways to say one thing"},
		"two times":         {nil, "", "--file - --any-time --at 1h", exitUsage, "--any-time does not go with"},
		"one input twice":   {nil, "", "--file - --secret-file -", exitUsage, "the standard input can be one thing alone"},
		"half an endpoint":  {nil, "", "--file - --tenant acme", exitUsage, "go together"},
		"two sources":       {nil, "", "--file - --tenant acme --endpoint ep_1 --secret x", exitUsage, "--endpoint says scheme and secrets"},
		"no tolerance":      {nil, "", "--file - --tolerance 0s", exitUsage, "it has to be more than 0"},
		"no scheme":         {nil, "", "--file - --scheme md5", exitUsage, `"md5" is none of standard`},
		"no header":         {nil, "", "--header hunter2", exitUsage, "--header: this is no header like"},
		"no file":           {nil, "", "--file /no/such", exitFailed, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := cli(t.Context(), c.environ, c.stdin, append([]string{"verify"}, strings.Fields(c.args)...)...)
			if all := got.out + got.errout; got.code != c.code || !strings.Contains(all, c.says) || strings.Contains(all, vectorSecret[6:]) || strings.Contains(all, "hunter2") {
				t.Errorf("exit %d: %s%s\nwant %d: %s", got.code, got.out, got.errout, c.code, c.says)
			}
		})
	}
}

func TestVerifyTakesARequestInParts(t *testing.T) {
	t.Parallel()
	args := []string{
		"verify", "--at", vectorTime, "--secret", vectorSecret, "--header", "webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek",
		"--header", "webhook-timestamp:1614265330", "--header", "webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
	}
	must(t, nil, append(args, "--body", `{"test": 2432232314}`)...)
	got := cli(t.Context(), nil, `{"test": 2432232314}`, append(args, "--body-file", "-", "--json")...)
	var v verdict
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.code != exitDone || !v.Verified || *v.Scheme != "standard" ||
		*v.Secret != "--secret" || *v.AgeSeconds != 2 || v.Findings == nil {
		t.Errorf("exit %d, %v: %s", got.code, err, got.out)
	}
	got = cli(t.Context(), nil, "", append(args, "--json")...)
	v = verdict{}
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.code != exitFailed || v.Verified || len(v.Findings) == 0 || v.Findings[0].Do == "" {
		t.Errorf("exit %d, %v: %s", got.code, err, got.out)
	}
	hostile := cli(t.Context(), nil, "a: b\x1b[2J\n\n", "verify", "--file", "-", "--secret", vectorSecret, "--scheme", "standard")
	if hostile.code != exitFailed || strings.Contains(hostile.out+hostile.errout, "\x1b") {
		t.Errorf("%+v", hostile)
	}
}

// The secrets of an endpoint are asked for, the former ones too.
func TestVerifyAsksTheServerForAnEndpointsSecrets(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, answerJSON(200, `{"id":"ep_1","signature":{"scheme":"standard"},"secret":"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
		"previous":[{"secret":"`+vectorSecret+`"}]}`))
	got := cli(t.Context(), nil, vectorHead+`{"test": 2432232314}`, s.args("verify", "--file", "-", "--any-time", "--tenant", "acme", "--endpoint", "ep_1")...)
	if got.code != exitDone || !strings.Contains(got.out, "verified by a former secret of ep_1") || len(s.asked) != 2 ||
		s.asked[1].uri != "/v1/tenants/acme/endpoints/ep_1/secret" {
		t.Errorf("%+v, %+v", got, s.asked)
	}
}
