package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/internal/duration"
	"github.com/postrider/postrider/internal/verifier"
	"github.com/postrider/postrider/signer"
)

// captureLimit is how large a captured request may be: twice the largest payload that can be configured.
const captureLimit = 512 << 20

const verifyVariable = "POSTRIDER_VERIFY_SECRET"

// verifyFlags are what `postrider verify` judges, and by what.
type verifyFlags struct {
	secretFlags
	file, body, bodyFile string
	headers              []string
	at, tolerance        string
	anyTime              bool
}

func newVerify(w world) *cobra.Command {
	f := verifyFlags{secretFlags: secretFlags{
		variable: verifyVariable, schemeSays: "default: whichever the headers show",
		tenantSays: "with --endpoint: the `tenant`'s id or uid",
	}}
	cmd, r := remoteCommand(w, &cobra.Command{
		Use: "verify", Short: "Check a captured request, and say what is wrong with it", Args: exactly(),
		Long: "Check a captured request: whether it verifies, by which secret and scheme and how old it is, or what is wrong with it and what\n" +
			"to do. It tries what is often done to requests on their way, such as a line break at the end of the body, JSON that was parsed\n" +
			"and written again, or a secret that was copied with a blank. It exits with 0 if the request verifies, else with 1.",
		Example: `  postrider verify --file request.http --secret-file secret.txt
  postrider verify --header 'webhook-id: evt_…' --header 'webhook-timestamp: …' --header 'webhook-signature: v1,…' \
    --body-file body.json --tenant acme --endpoint ep_…`,
	})
	f.secretFlags.flags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.file, "file", "", "`file` with the request: headers, an empty line, and the body as it is; - for the standard input")
	flags.StringArrayVar(&f.headers, "header", nil, "a header of it, as `'name: value'`; may be repeated")
	flags.StringVar(&f.body, "body", "", "its body, as `text`")
	flags.StringVar(&f.bodyFile, "body-file", "", "`file` with its body, - for the standard input")
	flags.StringVar(&f.at, "at", "", "when it came: a `time`, or a span such as 2h for two hours ago (default: now)")
	flags.StringVar(&f.tolerance, "tolerance", "5m", "how far its timestamp may be from then")
	flags.BoolVar(&f.anyTime, "any-time", false, "its timestamp may be any")
	judge(cmd, "tolerance", positive)
	cmd.Flag("tolerance").DefValue = "5m"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		q, err := f.question(cmd, r)
		if err != nil {
			return err
		}
		return r.showVerdict(q, verifier.Judge(q))
	}
	return cmd
}

func (f *verifyFlags) question(cmd *cobra.Command, r *remote) (q verifier.Question, err error) {
	if err := f.check(cmd); err != nil {
		return q, err
	}
	q.Scheme, q.Header, q.Now = signer.Scheme(f.scheme), f.header, r.w.now()
	if at, err := r.w.when(cmd, "at", ago); err != nil {
		return q, err
	} else if at != "" {
		q.Now, _ = time.Parse(time.RFC3339Nano, at) // when wrote it
	}
	if !f.anyTime {
		q.Tolerance, _ = duration.Parse(f.tolerance) // it was judged
	}
	if q.Secrets, err = f.secretFlags.read(r.w); err != nil {
		return q, err
	}
	if f.endpoint != "" {
		c, err := r.client()
		if err != nil {
			return q, err
		}
		t, err := endpointTrust(cmd.Context(), c, f.tenant, f.endpoint)
		if err != nil {
			return q, err
		}
		q.Scheme, q.Header, q.Secrets = t.Scheme, t.Header, labelled(t, f.endpoint)
	}
	q.Request, err = f.request(cmd, r.w)
	return q, err
}

// check refuses command lines that do not say what to judge and by what.
func (f *verifyFlags) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	stdins := 0
	for _, path := range append([]string{f.file, f.bodyFile}, f.files...) {
		if path == "-" {
			stdins++
		}
	}
	switch {
	case !given("file") && !given("header"):
		return usagef(cmd, "--file, or --header and --body, is missing: the request to check")
	case given("file") && (given("header") || given("body") || given("body-file")):
		return usagef(cmd, "--file has the whole request, it does not go with --header, --body and --body-file")
	case given("body") && given("body-file"):
		return usagef(cmd, "--body and --body-file are two ways to say one thing")
	case f.anyTime && (given("tolerance") || given("at")):
		return usagef(cmd, "--any-time does not go with --at and --tolerance")
	case stdins > 1:
		return usagef(cmd, "the standard input can be one thing alone")
	case (f.endpoint == "") != (f.tenant == ""):
		return usagef(cmd, "--tenant and --endpoint go together")
	case f.endpoint != "" && (len(f.secrets) > 0 || len(f.files) > 0 || f.scheme != ""):
		return usagef(cmd, "--endpoint says scheme and secrets, it does not go with --scheme, --secret and --secret-file")
	}
	return nil
}

// request reads the capture, byte for byte.
func (f *verifyFlags) request(cmd *cobra.Command, w world) (verifier.Request, error) {
	if f.file != "" {
		raw, err := readCapture(f.file, w.stdin)
		if err != nil {
			return verifier.Request{}, fmt.Errorf("read the request: %w", err)
		}
		r, err := verifier.ParseRequest(raw)
		if err != nil {
			return verifier.Request{}, usagef(cmd, "the request in %s cannot be read: %v", f.file, err)
		}
		return r, nil
	}
	r := verifier.Request{Body: []byte(f.body)}
	for _, line := range f.headers {
		field, err := verifier.ParseField(line)
		if err != nil {
			return verifier.Request{}, usagef(cmd, "--header: %v", err)
		}
		r.Fields = append(r.Fields, field)
	}
	if f.bodyFile != "" {
		body, err := readCapture(f.bodyFile, w.stdin)
		if err != nil {
			return verifier.Request{}, fmt.Errorf("read the body: %w", err)
		}
		r.Body = body
	}
	return r, nil
}

func readCapture(path string, stdin io.Reader) ([]byte, error) {
	from := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // it was only read
		from = file
	}
	raw, err := io.ReadAll(io.LimitReader(from, captureLimit+1))
	if err == nil && len(raw) > captureLimit {
		err = fmt.Errorf("it has more than %d bytes", captureLimit)
	}
	return raw, err
}

var errNotVerified = errors.New("the request does not verify")

// verdict is what machines are told.
type verdict struct {
	Verified   bool               `json:"verified"`
	Scheme     *string            `json:"scheme"`
	Secret     *string            `json:"secret"` // what it was called on the command line, nothing of itself
	SignedAt   *time.Time         `json:"signed_at"`
	AgeSeconds *int64             `json:"age_seconds"`
	Findings   []verifier.Finding `json:"findings"`
}

func (r *remote) showVerdict(q verifier.Question, v verifier.Verdict) error {
	if r.json {
		out := verdict{Verified: v.Verified, Findings: append([]verifier.Finding{}, v.Findings...)}
		if v.Scheme != "" {
			out.Scheme = new(v.Scheme.String())
		}
		if v.Secret != "" {
			out.Secret = new(v.Secret)
		}
		if !v.SignedAt.IsZero() {
			out.SignedAt, out.AgeSeconds = new(v.SignedAt), new(int64(q.Now.Sub(v.SignedAt)/time.Second))
		}
		if err := printJSON(r.w.stdout, out); err != nil {
			return err
		}
	} else {
		r.w.printVerdict(q, v)
	}
	if !v.Verified {
		return errNotVerified
	}
	return nil
}

func (w world) printVerdict(q verifier.Question, v verifier.Verdict) {
	line := "NOT verified"
	if v.Verified {
		line = "verified by " + v.Secret
	}
	if v.Scheme != "" {
		line += ", scheme " + v.Scheme.String()
	}
	if !v.SignedAt.IsZero() {
		line += ", signed " + relative(v.SignedAt.Sub(q.Now)) + " (" + v.SignedAt.Format(time.RFC3339) + ")"
	}
	fmt.Fprintln(w.stdout, printable(line))
	for _, f := range v.Findings {
		fmt.Fprintf(w.stdout, "\n%s: %s\n", f.Code, printable(f.Says))
		fmt.Fprintf(w.stdout, "  → %s\n", printable(strings.TrimSpace(f.Do)))
	}
}
