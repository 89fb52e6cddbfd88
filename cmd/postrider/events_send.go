package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/internal/duration"
)

// receipt is the answer to an enqueue.
type receipt struct {
	ID         string     `json:"id"`
	Type       string     `json:"type"`
	Status     string     `json:"status"`
	Deliveries int        `json:"deliveries"`
	DeliverAt  *time.Time `json:"deliver_at"`
}

func (w world) showReceipt(body json.RawMessage) error {
	r, err := decode[receipt](body)
	if err != nil {
		return err
	}
	when := ""
	if r.DeliverAt != nil {
		when = ", " + w.clock(r.DeliverAt)
	}
	plural := "deliveries"
	if r.Deliveries == 1 {
		plural = "delivery"
	}
	fmt.Fprintln(w.stdout, printable(fmt.Sprintf("%s %s: %s, %d %s%s", r.ID, r.Type, r.Status, r.Deliveries, plural, when)))
	return nil
}

// payloadFlags are the ways to give a payload.
type payloadFlags struct{ data, file string }

func (p *payloadFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.data, "data", "", "the payload itself, as `JSON`")
	cmd.Flags().StringVar(&p.file, "file", "", "the `file` that holds the payload, - for the standard input")
}

// read gives the payload's bytes as they are; nil says that none was given.
func (p *payloadFlags) read(cmd *cobra.Command, stdin io.Reader) (payload []byte, err error) {
	data, file := cmd.Flags().Changed("data"), cmd.Flags().Changed("file")
	switch {
	case data && file:
		return nil, usagef(cmd, "--data and --file are two ways to say one thing")
	case data:
		return []byte(p.data), nil
	case file:
		payload, err = readFile(p.file, stdin)
		if err != nil {
			return nil, fmt.Errorf("read the payload: %w", err)
		}
		return payload, nil
	}
	return nil, nil
}

// envelope writes a JSON object with the payload's bytes in it as they stand: encoding/json would strip blanks and
// rewrite <, > and &. A nil payload is none.
func envelope(fields map[string]any, payload []byte) ([]byte, error) {
	head, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	if payload == nil {
		return head, nil
	}
	if !json.Valid(payload) {
		return nil, errors.New("the payload is not JSON: --raw sends any bytes, with --content-type to say what they are")
	}
	var b bytes.Buffer
	b.Write(head[:len(head)-1])
	if len(fields) > 0 {
		b.WriteByte(',')
	}
	b.WriteString(`"payload":`)
	b.Write(payload)
	b.WriteByte('}')
	return b.Bytes(), nil
}

// sendFlags are what an event may have beside its payload.
type sendFlags struct {
	payloadFlags
	eventType, uid, groupKey, contentType, idempotencyKey, wait string
	endpoints                                                   []string
	raw                                                         bool
}

func newEventsSend(w world) *cobra.Command {
	var f sendFlags
	cmd := tenantCommand(w, &cobra.Command{
		Use: "send", Short: "Send an event to a tenant's endpoints", Args: exactly(),
		Example: `  postrider events send --tenant acme --type order.paid --data '{"order": 1}'
  postrider events send --tenant acme --type report.ready --raw --content-type application/pdf --file report.pdf
  generate | postrider events send --tenant acme --type order.paid --file -`,
	}, func(cmd *cobra.Command, r *remote, tenant string, _ []string) error {
		what, err := f.call(cmd, w, tenant)
		if err != nil {
			return err
		}
		if f.wait != "" {
			wait, _ := duration.Parse(f.wait) // it was judged
			return r.sendAndWait(cmd.Context(), what, tenant, wait)
		}
		return r.fetch(cmd.Context(), what, w.showReceipt)
	})
	flags := cmd.Flags()
	f.flags(cmd)
	flags.StringVar(&f.eventType, "type", "", "the event's `type`, such as order.paid (required)")
	flags.BoolVar(&f.raw, "raw", false, "the payload is any bytes, not JSON")
	flags.StringVar(&f.contentType, "content-type", "", "what the payload is (default application/json; with --raw application/octet-stream)")
	flags.StringVar(&f.uid, "uid", "", "your own `name` for the event: sending it again makes no second one")
	flags.StringVar(&f.groupKey, "group-key", "", "what it belongs to")
	flags.StringSliceVar(&f.endpoints, "endpoint", nil, "only to these endpoints (ids or uids), as far as they want the type")
	flags.String("deliver-at", "", "not before this `time` (2026-11-30T09:00:00Z, or 10m from now)")
	flags.StringVar(&f.idempotencyKey, "idempotency-key", "", "makes it safe to repeat: the same `key` and content make one event")
	flags.StringVar(&f.wait, "wait", "", "wait until it is finished, 30s or --wait=`time`, and show it; exit code 1 unless it succeeded")
	flags.Lookup("wait").NoOptDefVal = longestLook.String()
	judge(cmd, "wait", span)
	require(cmd, "type")
	requirePayload(cmd)
	return cmd
}

func (f *sendFlags) call(cmd *cobra.Command, w world, tenant string) (call, error) {
	payload, err := f.read(cmd, w.stdin)
	if err != nil {
		return call{}, err
	}
	deliverAt, err := w.when(cmd, "deliver-at", ahead)
	if err != nil {
		return call{}, err
	}
	header := http.Header{}
	if f.idempotencyKey != "" {
		header.Set("Idempotency-Key", f.idempotencyKey)
	}
	if f.raw {
		if len(f.endpoints) > 0 {
			return call{}, usagef(cmd, "--endpoint does not go with --raw")
		}
		contentType := f.contentType
		if contentType == "" {
			contentType = "application/octet-stream"
		}
		header.Set("Content-Type", contentType)
		query := url.Values{}
		setQuery(query, "uid", f.uid)
		setQuery(query, "group_key", f.groupKey)
		setQuery(query, "deliver_at", deliverAt)
		return call{http.MethodPost, eventPath(tenant, f.eventType), query, header, payload}, nil
	}
	fields := map[string]any{"type": f.eventType}
	setText(fields, "uid", f.uid)
	setText(fields, "group_key", f.groupKey)
	setText(fields, "deliver_at", deliverAt)
	setText(fields, "content_type", f.contentType)
	if len(f.endpoints) > 0 {
		fields["endpoint_ids"] = f.endpoints
	}
	body, err := envelope(fields, payload)
	return call{method: http.MethodPost, path: eventPath(tenant), header: header, body: body}, err
}
