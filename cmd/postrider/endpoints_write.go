package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// endpointFlags are the fields of an endpoint that can be set.
type endpointFlags struct {
	uid, description, filter, scheme, header, secretFile, timeout, rateLimit, ordering, format string

	eventTypes, headers, schedule []string
	maxInFlight                   int
	traceContext                  bool
	tls                           tlsFlags
}

// endpointTexts say in --help what a flag of an endpoint's field does.
type endpointTexts struct {
	uid, description, eventTypes, filter, header, scheme, signatureHeader, secretFile, maxInFlight, rateLimit, ordering, format, traceContext,
	timeout, schedule string
	tls tlsTexts
}

var (
	textsOfCreate = endpointTexts{
		uid:             "your own `name` for it, to use wherever its id is asked for",
		description:     "what it is for",
		eventTypes:      "what it gets, such as order.paid,order.* (default all)",
		filter:          "which of these, as a CEL `expression` over event and payload, such as 'payload.amount > 100' (default all)",
		header:          "a header to send with every delivery, as `'Name: value'`; may be repeated",
		scheme:          "how deliveries are signed: " + join(signer.Schemes()) + " (default " + signer.Schemes()[0].String() + ")",
		signatureHeader: "of the scheme stripe: the `header` that carries the signature",
		secretFile:      "`file` with the signing secret, - for the standard input (default: one is made)",
		maxInFlight:     "`number` of deliveries at once (default: the server's)",
		rateLimit:       "how `many/span` of time, such as 100/1s, evenly spaced (default: no limit)",
		ordering:        "none, or group: what has the same group key goes one at a time, in order (default none)",
		format:          "what deliveries look like: " + join(subscriptions.Formats()) + " (default " + string(subscriptions.FormatRaw) + ")",
		traceContext:    "have attempts carry a traceparent header, where there is a trace",
		timeout:         "longest `time` for an attempt, such as 15s (default: the server's)",
		schedule:        "delays before the retries, such as 1m,5m,30m (default: the server's)",
		tls:             tlsOfCreate,
	}
	textsOfUpdate = endpointTexts{
		uid:             "another `name` of your own for it; empty: none",
		description:     "what it is for; empty: nothing",
		eventTypes:      "what it gets from now on, in place of what it got; empty: all",
		filter:          "which of these, as another CEL `expression` over event and payload; empty: all",
		header:          "headers to send with every delivery, in place of all there were, as `'Name: value'`; may be repeated; empty: none",
		scheme:          "another way to sign: " + join(signer.Schemes()) + "; empty: " + signer.Schemes()[0].String(),
		signatureHeader: "of the scheme stripe: another `header` that carries the signature; empty: the scheme's own",
		secretFile:      "only beside another --scheme: `file` with its secret, - for the standard input; else there is `endpoints rotate`",
		maxInFlight:     "another `number` of deliveries at once; 0: the server's default",
		rateLimit:       "how `many/span` of time, such as 100/1s, evenly spaced; empty: no limit",
		ordering:        "none, or group: what has the same group key goes one at a time, in order; empty: none",
		format:          "what deliveries look like from now on: " + join(subscriptions.Formats()) + "; empty: " + string(subscriptions.FormatRaw),
		traceContext:    "whether attempts carry a traceparent header from now on (--trace-context=false: no)",
		timeout:         "another longest `time` for an attempt, such as 15s; empty: the server's default",
		schedule:        "other delays before the retries, such as 1m,5m,30m; empty: the server's default",
		tls:             tlsOfUpdate,
	}
)

func (f *endpointFlags) flags(cmd *cobra.Command, t endpointTexts) {
	flags := cmd.Flags()
	flags.StringVar(&f.uid, "uid", "", t.uid)
	flags.StringVar(&f.description, "description", "", t.description)
	flags.StringSliceVar(&f.eventTypes, "event-types", nil, t.eventTypes)
	flags.StringVar(&f.filter, "filter", "", t.filter)
	flags.StringArrayVar(&f.headers, "header", nil, t.header)
	flags.StringVar(&f.scheme, "scheme", "", t.scheme)
	flags.StringVar(&f.header, "signature-header", "", t.signatureHeader)
	flags.StringVar(&f.secretFile, "secret-file", "", t.secretFile)
	flags.IntVar(&f.maxInFlight, "max-in-flight", 0, t.maxInFlight)
	flags.StringVar(&f.rateLimit, "rate-limit", "", t.rateLimit)
	flags.StringVar(&f.ordering, "ordering", "", t.ordering)
	flags.StringVar(&f.format, "format", "", t.format)
	flags.BoolVar(&f.traceContext, "trace-context", false, t.traceContext)
	flags.StringVar(&f.timeout, "timeout", "", t.timeout)
	flags.StringSliceVar(&f.schedule, "retry-schedule", nil, t.schedule)
	f.tls.flags(cmd, t.tls)
	judge(cmd, "scheme", among(signer.Schemes()...))
	judge(cmd, "rate-limit", rate)
	judge(cmd, "ordering", among(subscriptions.OrderingNone, subscriptions.OrderingGroup))
	judge(cmd, "format", among(subscriptions.Formats()...))
	judge(cmd, "timeout", span)
	judge(cmd, "retry-schedule", span)
}

// body makes a request's body of the flags that were given. An empty value takes a field back to its default.
func (f *endpointFlags) body(cmd *cobra.Command, w world, fields map[string]any) ([]byte, error) {
	signature := map[string]any{}
	limit, _ := readRate(f.rateLimit) // it was judged
	for _, one := range []struct {
		flag, field string
		value       any
		empty       bool
		in          map[string]any
	}{
		{"uid", "uid", f.uid, f.uid == "", fields},
		{"description", "description", f.description, f.description == "", fields},
		{"event-types", "event_types", f.eventTypes, len(f.eventTypes) == 0, fields},
		{"filter", "filter", f.filter, f.filter == "", fields},
		{"max-in-flight", "max_in_flight", f.maxInFlight, f.maxInFlight == 0, fields},
		{"rate-limit", "rate_limit", limit, f.rateLimit == "", fields},
		{"ordering", "ordering", f.ordering, f.ordering == "", fields},
		{"format", "format", f.format, f.format == "", fields},
		{"trace-context", "trace_context", f.traceContext, false, fields},
		{"timeout", "timeout", f.timeout, f.timeout == "", fields},
		{"retry-schedule", "retry_schedule", f.schedule, len(f.schedule) == 0, fields},
		{"scheme", "scheme", f.scheme, f.scheme == "", signature},
		{"signature-header", "header", f.header, f.header == "", signature},
	} {
		switch {
		case !cmd.Flags().Changed(one.flag):
		case one.empty:
			one.in[one.field] = nil
		default:
			one.in[one.field] = one.value
		}
	}
	if err := f.putHeaders(cmd, fields); err != nil {
		return nil, err
	}
	if err := f.tls.put(cmd, w, fields); err != nil {
		return nil, err
	}
	if f.secretFile != "" {
		secret, err := w.secretFile(f.secretFile)
		if err != nil {
			return nil, err
		}
		signature["secret"] = secret
	}
	if len(signature) > 0 {
		fields["signature"] = signature
	}
	return json.Marshal(fields)
}

// rate checks for a rate limit. How high it may be, the server knows.
func rate(value string) error {
	_, err := readRate(value)
	return err
}

func readRate(value string) (rateLimit, error) {
	many, per, _ := strings.Cut(value, "/")
	limit, err := strconv.Atoi(many)
	if err != nil || span(per) != nil {
		return rateLimit{}, fmt.Errorf("%s is no rate limit, want one such as 100/1s", quote(value))
	}
	return rateLimit{Limit: limit, Per: per}, nil
}

func (f *endpointFlags) putHeaders(cmd *cobra.Command, fields map[string]any) error {
	if !cmd.Flags().Changed("header") {
		return nil
	}
	headers := map[string]string{}
	for _, line := range f.headers {
		if line == "" {
			continue // --header '' takes them all away
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return usagef(cmd, "--header has to be like 'Name: value'") // not repeated: it may be a credential
		}
		headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	fields["headers"] = headers
	return nil
}

func newEndpointsCreate(w world) *cobra.Command {
	var f endpointFlags
	var disabled bool
	var kind string
	cmd := tenantCommand(w, &cobra.Command{
		Use: "create [URL]", Short: "Make an endpoint and print it with its secret",
		Args: func(cmd *cobra.Command, args []string) error {
			if kind == string(subscriptions.Pull) {
				return exactly()(cmd, args)
			}
			return exactly("URL")(cmd, args)
		},
		Long: "Make an endpoint and print it with its secret. Deliveries are posted to its URL. With --kind pull it has none: its owner\n" +
			"fetches what waits for it, and acknowledges it.",
		Example: "  postrider endpoints create https://acme.example/hooks --tenant acme --event-types 'order.*'\n" +
			"  postrider endpoints create --kind pull --tenant acme",
	}, func(cmd *cobra.Command, r *remote, tenant string, args []string) error {
		fields := map[string]any{}
		setText(fields, "kind", kind)
		for _, target := range args { // none of kind pull
			fields["url"] = target
		}
		if disabled {
			fields["disabled"] = true
		}
		body, err := f.body(cmd, w, fields)
		if err != nil {
			return err
		}
		return r.fetch(cmd.Context(), call{method: http.MethodPost, path: endpointPath(tenant), body: body}, w.showEndpoint)
	})
	f.flags(cmd, textsOfCreate)
	cmd.Flags().BoolVar(&disabled, "disabled", false, "its deliveries are held until it is enabled")
	cmd.Flags().StringVar(&kind, "kind", "", "push, or pull: its owner fetches what waits (default push)")
	judge(cmd, "kind", among(subscriptions.Push, subscriptions.Pull))
	return cmd
}

func newEndpointsUpdate(w world) *cobra.Command {
	var f endpointFlags
	var target, status string
	cmd := tenantCommand(w, &cobra.Command{
		Use: "update ENDPOINT", Short: "Change what is given by flags; --status enabled revives it", Args: exactly("ENDPOINT"),
		Long: "Change what is given by flags, and nothing else. An empty value (--timeout=) or --max-in-flight 0 takes a field back to\n" +
			"its default. --status enabled revives an endpoint that is disabled or dead, and ends a breaker that is open and a pause.",
		Example: "  postrider endpoints update ep_… --tenant acme --timeout 5s --event-types=",
	}, func(cmd *cobra.Command, r *remote, tenant string, args []string) error {
		fields := map[string]any{}
		setText(fields, "url", target)
		setText(fields, "status", status)
		body, err := f.body(cmd, w, fields)
		if err != nil {
			return err
		}
		if len(fields) == 0 {
			return usagef(cmd, "there is nothing to change: no flag says what")
		}
		return r.fetch(cmd.Context(), call{method: http.MethodPatch, path: endpointPath(tenant, args[0]), body: body}, w.showEndpoint)
	})
	f.flags(cmd, textsOfUpdate)
	cmd.Flags().StringVar(&target, "endpoint-url", "", "where deliveries go from now on")
	cmd.Flags().StringVar(&status, "status", "", "enabled (revives it and goes on with what is held) or disabled")
	judge(cmd, "status", among(subscriptions.Enabled, subscriptions.Disabled))
	return cmd
}
