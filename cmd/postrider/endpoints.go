package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/subscriptions"
)

// endpoint is what of an endpoint is shown to people.
type endpoint struct {
	ID          string            `json:"id"`
	TenantID    string            `json:"tenant_id"`
	UID         *string           `json:"uid"`
	Kind        string            `json:"kind"`
	URL         string            `json:"url"` // "" of the kind pull
	Description string            `json:"description"`
	EventTypes  []string          `json:"event_types"`
	Filter      *string           `json:"filter"`
	Headers     map[string]string `json:"headers"`
	Signature   struct {
		Scheme    string  `json:"scheme"`
		Header    *string `json:"header"`
		PublicKey *string `json:"public_key"`
		Secret    string  `json:"secret"`
	} `json:"signature"`
	MaxInFlight         *int         `json:"max_in_flight"`
	RateLimit           *rateLimit   `json:"rate_limit"`
	Ordering            string       `json:"ordering"`
	TraceContext        bool         `json:"trace_context"`
	Format              string       `json:"format"`
	Timeout             *string      `json:"timeout"`
	RetrySchedule       []string     `json:"retry_schedule"`
	TLS                 *endpointTLS `json:"tls"`
	Status              string       `json:"status"`
	StatusReason        *string      `json:"status_reason"`
	StatusChangedAt     time.Time    `json:"status_changed_at"`
	ConsecutiveFailures int          `json:"consecutive_failures"`
	FailingSince        *time.Time   `json:"failing_since"`
	LastError           *string      `json:"last_error"`
	Breaker             struct {
		State       string     `json:"state"`
		Since       *time.Time `json:"since"`
		NextProbeAt *time.Time `json:"next_probe_at"`
	} `json:"breaker"`
	PausedUntil *time.Time `json:"paused_until"`
	CreatedAt   time.Time  `json:"created_at"`
}

type rateLimit struct {
	Limit int    `json:"limit"`
	Per   string `json:"per"`
}

// String is the limit as --rate-limit takes it.
func (l *rateLimit) String() string {
	if l == nil {
		return "none"
	}
	return strconv.Itoa(l.Limit) + "/" + l.Per
}

func newEndpoints(w world) *cobra.Command {
	return group("endpoints", "Make, change and test tenants' endpoints",
		newEndpointsCreate(w), newEndpointsList(w), newEndpointsShow(w), newEndpointsUpdate(w), newEndpointsDelete(w),
		newEndpointsSecret(w), newEndpointsRotate(w), newEndpointsTest(w), newEndpointsReplay(w))
}

// tenantCommand makes a command about what belongs to one tenant; run is called when it is named.
func tenantCommand(w world, cmd *cobra.Command, run func(cmd *cobra.Command, r *remote, tenant string, args []string) error) *cobra.Command {
	var tenant string
	cmd, r := remoteCommand(w, cmd)
	cmd.Flags().StringVar(&tenant, "tenant", "", "the `tenant`'s id or uid (required)")
	require(cmd, "tenant")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := needAll(cmd); err != nil {
			return err
		}
		return run(cmd, r, tenant, args)
	}
	return cmd
}

func endpointPath(tenant string, more ...string) []string {
	return append([]string{"tenants", tenant, "endpoints"}, more...)
}

func newEndpointsList(w world) *cobra.Command {
	var l listing
	cmd := tenantCommand(w, &cobra.Command{Use: "list", Short: "List a tenant's endpoints, newest first", Args: exactly()},
		func(cmd *cobra.Command, r *remote, tenant string, _ []string) error {
			return r.show(cmd, l, endpointPath(tenant), nil, w.listEndpoints)
		})
	l.flags(cmd)
	return cmd
}

func (w world) listEndpoints(p page) error {
	list, err := rows[endpoint](p)
	if err != nil {
		return err
	}
	t := newTable("ID", "UID", "STATUS", "EVENT TYPES", "SCHEME", "FAILURES", "CREATED", "URL")
	for _, e := range list {
		t.add(e.ID, text(e.UID), e.statusWords(), eventTypes(e.EventTypes), e.Signature.Scheme,
			strconv.Itoa(e.ConsecutiveFailures), w.clock(&e.CreatedAt), e.place())
	}
	t.list(w.stdout, "endpoints")
	return nil
}

// place is where it gets its deliveries.
func (e endpoint) place() string {
	if e.Kind == string(subscriptions.Pull) {
		return "(pull: fetched by its owner)"
	}
	return e.URL
}

// statusWords is the status with its reason.
func (e endpoint) statusWords() string {
	if e.StatusReason != nil {
		return e.Status + " (" + *e.StatusReason + ")"
	}
	return e.Status
}

func eventTypes(patterns []string) string {
	if len(patterns) == 0 {
		return "all"
	}
	return strings.Join(patterns, ",")
}

func newEndpointsShow(w world) *cobra.Command {
	return tenantCommand(w, &cobra.Command{Use: "show ENDPOINT", Short: "Show an endpoint", Args: exactly("ENDPOINT")},
		func(cmd *cobra.Command, r *remote, tenant string, args []string) error {
			return r.fetch(cmd.Context(), call{method: http.MethodGet, path: endpointPath(tenant, args[0])}, w.showEndpoint)
		})
}

func (w world) showEndpoint(body json.RawMessage) error {
	e, err := decode[endpoint](body)
	if err != nil {
		return err
	}
	limit, timeout, schedule := "default", "default", "default"
	if e.MaxInFlight != nil {
		limit = strconv.Itoa(*e.MaxInFlight)
	}
	if e.Timeout != nil {
		timeout = *e.Timeout
	}
	if e.RetrySchedule != nil {
		schedule = strings.Join(e.RetrySchedule, ",")
	}
	headers := slices.Sorted(maps.Keys(e.Headers)) // the values may be credentials: --json has them
	t := &table{}
	t.add("id", e.ID)
	t.add("tenant", e.TenantID)
	t.add("uid", text(e.UID))
	t.add("url", e.place())
	t.add("description", e.Description)
	t.add("event types", eventTypes(e.EventTypes))
	t.add("filter", text(e.Filter))
	t.add("headers", strings.Join(headers, ","))
	t.add("signature", strings.TrimSuffix(e.Signature.Scheme+" "+text(e.Signature.Header), " "))
	if e.Signature.PublicKey != nil {
		t.add("public key", *e.Signature.PublicKey)
	}
	t.add("status", e.statusWords()+", "+w.clock(&e.StatusChangedAt))
	t.add("failures", strconv.Itoa(e.ConsecutiveFailures)+" since the last success")
	t.add("failing since", w.clock(e.FailingSince))
	t.add("last error", text(e.LastError))
	t.add("format", e.Format)
	if e.Kind != string(subscriptions.Pull) { // else nothing is sent
		t.add("breaker", w.breakerWords(e))
		t.add("paused until", w.clock(e.PausedUntil))
		t.add("max in flight", limit)
		t.add("rate limit", e.RateLimit.String())
		t.add("ordering", e.Ordering)
		if e.TraceContext {
			t.add("trace context", "traceparent is sent")
		}
		t.add("timeout", timeout)
		t.add("retry schedule", schedule)
		t.add("tls", w.tlsWords(e.TLS))
	}
	t.add("created", w.clock(&e.CreatedAt))
	if e.Signature.Secret != "" {
		t.add("secret", e.Signature.Secret)
	}
	t.print(w.stdout)
	return nil
}

// breakerWords is the breaker's state with its times.
func (w world) breakerWords(e endpoint) string {
	words := e.Breaker.State
	if e.Breaker.Since != nil {
		words += " since " + w.clock(e.Breaker.Since)
	}
	if e.Breaker.NextProbeAt != nil {
		words += ", next probe " + w.clock(e.Breaker.NextProbeAt)
	}
	return words
}

func newEndpointsDelete(w world) *cobra.Command {
	return tenantCommand(w, &cobra.Command{
		Use: "delete ENDPOINT", Short: "Delete an endpoint and cancel what it has not got yet", Args: exactly("ENDPOINT"),
	}, func(cmd *cobra.Command, r *remote, tenant string, args []string) error {
		c, err := r.client()
		if err != nil {
			return err
		}
		if _, err := c.do(cmd.Context(), call{method: http.MethodDelete, path: endpointPath(tenant, args[0])}); err != nil {
			return err
		}
		return r.done("deleted", args[0])
	})
}

func newEndpointsTest(w world) *cobra.Command {
	var eventType string
	var data payloadFlags
	cmd := tenantCommand(w, &cobra.Command{
		Use: "test ENDPOINT", Short: "Send one event to this endpoint alone", Args: exactly("ENDPOINT"),
	}, func(cmd *cobra.Command, r *remote, tenant string, args []string) error {
		what := call{method: http.MethodPost, path: endpointPath(tenant, args[0], "test")}
		fields := map[string]any{}
		setText(fields, "type", eventType)
		payload, err := data.read(cmd, w.stdin)
		if err != nil {
			return err
		}
		if what.body, err = envelope(fields, payload); err != nil {
			return err
		}
		return r.fetch(cmd.Context(), what, w.showReceipt)
	})
	cmd.Flags().StringVar(&eventType, "type", "", "the event's `type` (default postrider.test)")
	data.flags(cmd)
	cmd.Flag("data").Usage += " (default: the server's, {})"
	return cmd
}

// secretFile reads a secret from a file or, for "-", the standard input: on the command line others could see it.
func (w world) secretFile(path string) (string, error) {
	raw, err := readFile(path, w.stdin)
	if err != nil {
		return "", fmt.Errorf("read the secret: %w", err)
	}
	return strings.TrimRight(string(raw), "\r\n"), nil // the newline that every editor ends a file with
}

func readFile(path string, stdin io.Reader) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(path)
}
