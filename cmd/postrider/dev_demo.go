package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/postrider/postrider/internal/devreceiver"
)

const (
	demoTenant   = "demo"
	demoEndpoint = "demo-receiver"
	demoType     = "order.paid"
	// demoPatience is how long the demo event may take. It needs milliseconds, but what a former run left may come first.
	demoPatience = 30 * time.Second
)

// demo is the tenant, the endpoint and the receiver that `postrider dev` shows Postrider with. It uses the HTTP API alone,
// as anybody's service would.
type demo struct {
	*dev
	client      *client
	receiverURL string
	seen        *sightings
}

// run sends an event, waits until the receiver has verified it and says how to go on.
func (d *demo) run(ctx context.Context) error {
	err := d.show(ctx)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // asked to stop meanwhile
	}
	if err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (d *demo) show(ctx context.Context) error {
	if err := d.makeTenant(ctx); err != nil {
		return err
	}
	if err := d.makeEndpoint(ctx); err != nil {
		return err
	}
	if err := d.describeType(ctx); err != nil {
		return err
	}
	sent, err := d.send(ctx)
	if err != nil {
		return err
	}
	if sent.Deliveries == 0 {
		d.out.printf("the demo's endpoint was changed: it does not get %s any more\n", demoType)
	} else if err := d.seen.wait(ctx, sent.ID, demoPatience); err != nil {
		return fmt.Errorf("%w; `%s` shows what became of %s", err, d.listCommand, sent.ID)
	}
	portal, err := d.portal(ctx)
	if err != nil {
		return err
	}
	d.out.printf("%s", d.banner(portal))
	return nil
}

// makeTenant makes the demo tenant unless a former run did.
func (d *demo) makeTenant(ctx context.Context) error {
	body := []byte(`{"uid":"` + demoTenant + `","name":"Demo"}`)
	_, err := d.client.do(ctx, call{method: http.MethodPost, path: []string{"tenants"}, body: body})
	if err != nil && !isStatus(err, http.StatusConflict) {
		return fmt.Errorf("make the demo tenant: %w", err)
	}
	return nil
}

// makeEndpoint makes the endpoint that leads to the receiver, or has the one of a former run lead there.
func (d *demo) makeEndpoint(ctx context.Context) error {
	body, err := json.Marshal(map[string]string{
		"uid": demoEndpoint, "url": d.receiverURL, "description": "the receiver built into `postrider dev`",
	})
	if err != nil {
		return err
	}
	_, err = d.client.do(ctx, call{method: http.MethodPost, path: endpointPath(demoTenant), body: body})
	if isStatus(err, http.StatusConflict) {
		return d.mendEndpoint(ctx)
	}
	if err != nil {
		return fmt.Errorf("make the demo endpoint: %w", err)
	}
	return nil
}

// describeType puts the demo's event type into the catalogue, unless somebody has described it already: a portal with nothing
// to choose from shows little.
func (d *demo) describeType(ctx context.Context) error {
	path := []string{"event-types", demoType}
	_, err := d.client.do(ctx, call{method: http.MethodGet, path: path})
	if !isStatus(err, http.StatusNotFound) {
		return err
	}
	body := []byte(`{"description":"An order was paid.","example":{"order":"A-1001","amount":"49.90","currency":"EUR"}}`)
	if _, err := d.client.do(ctx, call{method: http.MethodPut, path: path, body: body}); err != nil {
		return fmt.Errorf("describe the demo's event type: %w", err)
	}
	return nil
}

func (d *demo) mendEndpoint(ctx context.Context) error {
	e, err := d.endpoint(ctx)
	if err != nil {
		return err
	}
	if e.URL == d.receiverURL && e.Status == "enabled" {
		return nil
	}
	body, err := json.Marshal(map[string]string{"url": d.receiverURL, "status": "enabled"})
	if err != nil {
		return err
	}
	what := call{method: http.MethodPatch, path: endpointPath(demoTenant, demoEndpoint), body: body}
	if _, err := d.client.do(ctx, what); err != nil {
		return fmt.Errorf("have the demo endpoint lead to the receiver: %w", err)
	}
	return nil
}

func (d *demo) endpoint(ctx context.Context) (endpoint, error) {
	body, err := d.client.do(ctx, call{method: http.MethodGet, path: endpointPath(demoTenant, demoEndpoint)})
	if err != nil {
		return endpoint{}, fmt.Errorf("read the demo endpoint: %w", err)
	}
	return decode[endpoint](body)
}

func (d *demo) send(ctx context.Context) (receipt, error) {
	body, err := json.Marshal(map[string]any{"type": demoType, "payload": map[string]any{
		"order": "A-1001", "amount": "49.90", "currency": "EUR", "paid_at": d.now().UTC().Format(time.RFC3339),
	}})
	if err != nil {
		return receipt{}, err
	}
	answer, err := d.client.do(ctx, call{method: http.MethodPost, path: eventPath(demoTenant), body: body})
	if err != nil {
		return receipt{}, fmt.Errorf("send the demo event: %w", err)
	}
	return decode[receipt](answer)
}

// portal makes a link into the demo tenant's portal, good for as long as one can be.
func (d *demo) portal(ctx context.Context) (url string, err error) {
	what := call{method: http.MethodPost, path: portalLinkPath(demoTenant), body: []byte(`{"expires_in":"1h"}`)}
	body, err := d.client.do(ctx, what)
	if err != nil {
		return "", fmt.Errorf("make a link into the demo tenant's portal: %w", err)
	}
	link, err := decode[portalLink](body)
	return link.URL, err
}

// receiver is the demo endpoint's other side. It learns the secret from the API, so that it goes on after a rotation.
func (d *demo) receiver() http.Handler {
	return devreceiver.New(devreceiver.Options{
		Trust: d.trust, Now: d.now, MaxBody: d.cfg.Events.MaxPayload,
		Report: func(got devreceiver.Received) {
			d.out.printf("%s", describe(got))
			if got.Err == nil {
				d.seen.add(got.EventID)
			}
		},
	})
}

func (d *demo) trust(ctx context.Context) (devreceiver.Trust, error) {
	return endpointTrust(ctx, d.client, demoTenant, demoEndpoint)
}
