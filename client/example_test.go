package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/postrider/postrider/client"
)

func ExampleClient_Enqueue() {
	server := pretend()
	defer server.Close()

	c, err := client.New(server.URL, "prk_from_your_settings")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	receipt, err := c.Enqueue(ctx, client.Event{
		Tenant:  "acme",
		Type:    "order.paid",
		UID:     "order-1001-paid", // enqueued again with the same content, it is the same event
		Payload: []byte(`{"order": 1001, "amount": 49.90}`),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	fmt.Println(receipt.ID, receipt.Status, receipt.Deliveries)
	// Output: evt_0723s3kr8009w5e queued 2
}

func ExampleClient_EnqueueBatch() {
	server := pretend()
	defer server.Close()

	c, err := client.New(server.URL, "prk_from_your_settings", client.WithRetries(3))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	_, err = c.EnqueueBatch(context.Background(), "acme", []client.Event{
		{Type: "order.paid", UID: "outbox:1", Payload: []byte(`{"order": 1001}`)},
		{Type: "order.paid", UID: "outbox:2", Payload: []byte(`no JSON`)},
	})
	var refused *client.Error
	if errors.As(err, &refused) {
		for _, place := range refused.Errors {
			fmt.Println(place.Pointer, place.Detail)
		}
	}
	// Output: /events/1/payload is no JSON value, which it has to be in a batch, with EndpointIDs or Metadata, and as a CloudEvent
}

// pretend starts what stands for a Postrider in the examples.
func pretend() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		eventType := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, `{"id": "evt_0723s3kr8009w5e", "type": %q, "status": "queued", "deliveries": 2}`, eventType)
	}))
}
