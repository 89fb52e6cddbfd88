package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/internal/devreceiver"
	"github.com/postrider/postrider/internal/duration"
	"github.com/postrider/postrider/internal/verifier"
	"github.com/postrider/postrider/signer"
)

const (
	listenVariable = "POSTRIDER_LISTEN_SECRET"
	// listenBody is the largest payload that can be configured.
	listenBody = 256 << 20
)

// listenFlags are what `postrider listen` does with what it gets.
type listenFlags struct {
	secretFlags
	temporary temporaryFlags

	addr, forwardTo, timeout, delay, lease string
	status, failFirst, count               int
	once, pull                             bool
}

func newListen(w world) *cobra.Command {
	f := listenFlags{secretFlags: secretFlags{
		variable: listenVariable, schemeSays: "default: " + signer.Schemes()[0].String(),
		tenantSays: "make an endpoint of this `tenant` (id or uid) that leads here, and delete it at the end",
	}}
	cmd, r := remoteCommand(w, &cobra.Command{
		Use: "listen", Short: "Receive webhooks on this machine, verify and print them", Args: exactly(),
		Long: "Receive webhooks on this machine, verify and print them, until Ctrl-C. What verifies is answered 204, or as --status, --fail-first,\n" +
			"--delay and --forward-to say; what does not is answered 400 and goes no further. With --tenant it makes an endpoint that leads\n" +
			"here and deletes it at the end, which needs a server that may reach this machine, such as `postrider dev`. With --pull it fetches\n" +
			"from an endpoint of kind pull instead, which works from anywhere, and acknowledges what is answered 2xx; the rest comes again.",
		Example: `  postrider listen --tenant demo --forward-to http://127.0.0.1:3000/webhooks
  postrider listen --tenant demo --fail-first 2 --retry-schedule 1s,1s,1s
  postrider listen --tenant acme --pull --forward-to http://127.0.0.1:3000/webhooks
  postrider listen --addr 127.0.0.1:9000 --secret-file secret.txt --once --json`,
	})
	f.secretFlags.flags(cmd)
	cmd.Flag("endpoint").Usage = "take the secrets of this `endpoint` of the tenant, and make none"
	f.temporary.flags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.addr, "addr", "127.0.0.1:0", "`host:port` to listen on; port 0 is any free one")
	flags.StringVar(&f.forwardTo, "forward-to", "", "pass what verifies on to the app at this `URL`, and answer as it does")
	flags.StringVar(&f.timeout, "timeout", "10s", "how long the app may take; then the answer is 504")
	flags.IntVar(&f.status, "status", http.StatusNoContent, "answer with this `status`")
	flags.IntVar(&f.failFirst, "fail-first", 0, "answer 503 to the first `number` of attempts of each delivery")
	flags.StringVar(&f.delay, "delay", "", "wait for this `time` before each answer")
	flags.BoolVar(&f.once, "once", false, "end after one request that verifies; short for --count 1")
	flags.IntVar(&f.count, "count", 0, "end after this `number` of requests that verify")
	flags.BoolVar(&f.pull, "pull", false, "fetch from an endpoint of kind pull, instead of being posted to")
	flags.StringVar(&f.lease, "lease", "", "with --pull: after which `time` what was not answered 2xx comes again (default: what --delay and --timeout may take, and 20s)")
	judge(cmd, "forward-to", checkTarget)
	judge(cmd, "lease", positive)
	judge(cmd, "timeout", positive)
	judge(cmd, "delay", span)
	cmd.Flag("timeout").DefValue = "10s"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.check(cmd); err != nil {
			return err
		}
		return runListen(cmd.Context(), r, f)
	}
	return cmd
}

// check refuses command lines that contradict themselves, or do not say whose signatures count.
func (f *listenFlags) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	own := len(f.secrets) > 0 || len(f.files) > 0
	switch {
	case f.tenant == "" && f.endpoint != "":
		return usagef(cmd, "--endpoint needs --tenant: whose endpoint it is")
	case f.tenant != "" && own:
		return usagef(cmd, "--tenant has the server say the secrets, it does not go with --secret and --secret-file")
	case f.endpoint != "" && (f.scheme != "" || f.header != ""):
		return usagef(cmd, "--endpoint says the scheme, it does not go with --scheme and --signature-header")
	case f.temporary.given(cmd) && (f.tenant == "" || f.endpoint != ""):
		return usagef(cmd, "--event-types, --filter, --retry-schedule and --endpoint-url are for an endpoint that is made, by --tenant alone")
	case f.pull && f.tenant == "":
		return usagef(cmd, "--pull needs --tenant: whose endpoint to fetch from")
	case f.pull && (given("addr") || given("endpoint-url") || given("retry-schedule")):
		return usagef(cmd, "--addr, --endpoint-url and --retry-schedule do not go with --pull: nothing is posted here")
	case !f.pull && f.lease != "":
		return usagef(cmd, "--lease goes with --pull")
	case given("status") && f.forwardTo != "":
		return usagef(cmd, "--status and --forward-to are two ways to answer")
	case given("timeout") && f.forwardTo == "":
		return usagef(cmd, "--timeout is for the app of --forward-to")
	case f.status < 200 || f.status > 599:
		return usagef(cmd, "--status has to be 200 to 599")
	case f.failFirst < 0 || f.count < 0:
		return usagef(cmd, "--fail-first and --count may not be negative")
	case f.once && given("count"):
		return usagef(cmd, "--once and --count are two ways to say one thing")
	}
	if f.once {
		f.count = 1
	}
	return nil
}

// answerer puts together what the flags say about answers.
func (f *listenFlags) answerer() devreceiver.Answerer {
	answer := devreceiver.Always(f.status)
	if f.forwardTo != "" {
		patience, _ := duration.Parse(f.timeout) // it was judged
		answer = devreceiver.Forward(f.forwardTo, patience)
	}
	if f.failFirst > 0 {
		answer = devreceiver.FailFirst(f.failFirst, answer)
	}
	if d, _ := duration.Parse(f.delay); d > 0 {
		answer = devreceiver.After(d, answer)
	}
	return answer
}

// listener is one run of `postrider listen`.
type listener struct {
	*remote
	flags  listenFlags
	trust  func(context.Context) (devreceiver.Trust, error)
	known  devreceiver.Trust // the last that was asked for; the receiver asks and reports one at a time
	count  int
	enough func() // ends the run

	// What --tenant leads to.
	server   *client
	endpoint string
}

func runListen(ctx context.Context, r *remote, f listenFlags) error {
	l := &listener{remote: r, flags: f}
	running, stop := context.WithCancel(ctx)
	defer stop()
	l.enough = stop
	if f.pull {
		return l.fetch(running)
	}
	return l.serve(running)
}

// serve is posted to.
func (l *listener) serve(ctx context.Context) (err error) {
	socket, err := listen(ctx, l.flags.addr)
	if err != nil {
		return err
	}
	at := baseURL(socket.Addr()) + "/"
	made, err := l.prepare(ctx, at)
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	defer func() { err = errors.Join(err, made.remove(ctx)) }()
	l.say("listening on %s", at)
	if err := newServer(socket, l.receiver(), zerolog.Nop()).part("the receiver", "receiver.listening", zerolog.Nop()).run(ctx); err != nil {
		return err
	}
	return l.verdict()
}

// fetch asks an endpoint of kind pull.
func (l *listener) fetch(ctx context.Context) (err error) {
	made, err := l.prepare(ctx, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, made.remove(ctx)) }()
	l.say("fetching from the endpoint %s", l.endpoint)
	if err := l.puller().run(ctx); err != nil {
		return err
	}
	return l.verdict()
}

// prepare settles whose signatures count, if need be with an endpoint of its own.
func (l *listener) prepare(ctx context.Context, at string) (made *temporaryEndpoint, err error) {
	f := l.flags
	if f.tenant == "" {
		given, err := f.secretFlags.read(l.w)
		if err != nil {
			return nil, err
		}
		l.trust, err = fixedTrust(signer.Scheme(f.scheme), f.header, given)
		return nil, err
	}
	if l.server, err = l.client(); err != nil {
		return nil, err
	}
	if l.endpoint = f.endpoint; l.endpoint == "" {
		if made, err = f.temporary.make(ctx, l.remote, l.server, f, at); err != nil {
			return nil, err
		}
		l.endpoint = made.id
	}
	l.trust = func(ctx context.Context) (devreceiver.Trust, error) {
		return endpointTrust(ctx, l.server, f.tenant, l.endpoint)
	}
	if made == nil {
		if _, err = l.trust(ctx); err != nil { // what cannot be read shows before anything comes
			return nil, err
		}
	}
	return made, nil
}

// fixedTrust trusts secrets that were given, and refuses those that cannot be any.
func fixedTrust(scheme signer.Scheme, header string, given []verifier.Secret) (func(context.Context) (devreceiver.Trust, error), error) {
	if len(given) == 0 {
		return nil, errors.New("there is nothing to verify with: give the endpoint's secret by --secret-file, --secret or " + listenVariable +
			", or have one made by --tenant")
	}
	if scheme == "" {
		scheme = signer.Schemes()[0]
	}
	t := devreceiver.Trust{Scheme: scheme, Header: header}
	for _, s := range given {
		none := func(string) string { return "" }
		if err := signer.Verify(scheme, header, s.Text, none, nil, time.Time{}, time.Second); !errors.Is(err, signer.ErrMissingHeader) {
			return nil, fmt.Errorf("%s: %w", s.Label, err)
		}
		t.Secrets = append(t.Secrets, s.Text)
	}
	return func(context.Context) (devreceiver.Trust, error) { return t, nil }, nil
}

func (l *listener) receiver() *devreceiver.Receiver {
	return devreceiver.New(devreceiver.Options{
		Trust: func(ctx context.Context) (t devreceiver.Trust, err error) {
			if t, err = l.trust(ctx); err == nil {
				l.known = t
			}
			return t, err
		},
		Answer: l.flags.answerer(), Report: l.report, MaxBody: listenBody, Now: l.w.now,
	})
}

// verdict is what the run came to.
func (l *listener) verdict() error {
	if l.count < l.flags.count {
		return fmt.Errorf("stopped after %d of %d requests", l.count, l.flags.count)
	}
	return nil
}

// say tells people how things stand; the standard output has the requests alone.
func (l *listener) say(format string, args ...any) { l.w.say(format, args...) }

func (w world) say(format string, args ...any) {
	fmt.Fprintln(w.stderr, printable(fmt.Sprintf(format, args...)))
}
