package main

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
)

// endpointFlags are the fields of an endpoint that can be set.
type endpointFlags struct {
	uid, description, scheme, header, secretFile, timeout string
	eventTypes, headers, schedule                         []string
	maxInFlight                                           int
}

func (f *endpointFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.uid, "uid", "", "your own `name` for it, to use wherever its id is asked for")
	flags.StringVar(&f.description, "description", "", "what it is for")
	flags.StringSliceVar(&f.eventTypes, "event-types", nil, "what it gets, such as order.paid,order.* (default all)")
	flags.StringArrayVar(&f.headers, "header", nil, "a header to send with every delivery, as `'Name: value'`; may be repeated")
	flags.StringVar(&f.scheme, "scheme", "", "standard (the default), standard-ed25519, stripe, github or timestamped-hex")
	flags.StringVar(&f.header, "signature-header", "", "of the scheme stripe: the `header` that carries the signature")
	flags.StringVar(&f.secretFile, "secret-file", "", "`file` with the signing secret, - for the standard input (default: one is made)")
	flags.IntVar(&f.maxInFlight, "max-in-flight", 0, "`number` of deliveries at once")
	flags.StringVar(&f.timeout, "timeout", "", "longest `time` for an attempt, such as 15s")
	flags.StringSliceVar(&f.schedule, "retry-schedule", nil, "delays before the retries, such as 1m,5m,30m")
}

// body makes a request's body of the flags that were given. An empty value takes a field back to its default.
func (f *endpointFlags) body(cmd *cobra.Command, w world, fields map[string]any) ([]byte, error) {
	signature := map[string]any{}
	for _, one := range []struct {
		flag, field string
		value       any
		empty       bool
		in          map[string]any
	}{
		{"uid", "uid", f.uid, f.uid == "", fields},
		{"description", "description", f.description, f.description == "", fields},
		{"event-types", "event_types", f.eventTypes, len(f.eventTypes) == 0, fields},
		{"max-in-flight", "max_in_flight", f.maxInFlight, f.maxInFlight == 0, fields},
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
	cmd := tenantCommand(w, &cobra.Command{
		Use: "create URL", Short: "Make an endpoint and print it with its secret", Args: exactly("URL"),
	}, func(cmd *cobra.Command, r *remote, tenant string, args []string) error {
		fields := map[string]any{"url": args[0]}
		if disabled {
			fields["disabled"] = true
		}
		body, err := f.body(cmd, w, fields)
		if err != nil {
			return err
		}
		return r.fetch(cmd.Context(), call{method: http.MethodPost, path: endpointPath(tenant), body: body}, w.showEndpoint)
	})
	f.flags(cmd)
	cmd.Flags().BoolVar(&disabled, "disabled", false, "its deliveries are held until it is enabled")
	return cmd
}

func newEndpointsUpdate(w world) *cobra.Command {
	var f endpointFlags
	var target, status string
	cmd := tenantCommand(w, &cobra.Command{
		Use: "update ENDPOINT", Short: "Change what is given by flags; --status enabled revives it", Args: exactly("ENDPOINT"),
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
	f.flags(cmd)
	cmd.Flags().StringVar(&target, "endpoint-url", "", "where deliveries go from now on")
	cmd.Flags().StringVar(&status, "status", "", "enabled or disabled")
	return cmd
}
