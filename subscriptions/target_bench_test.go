package subscriptions_test

import (
	"testing"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// What a dispatcher does once a second: it reads a hundred endpoints of a bucket again, none of which has changed.
func BenchmarkTargets(b *testing.B) {
	w := newWorld(b)
	tenant := w.tenant()
	var ids []id.ID
	for range 100 {
		e, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.Headers = headers("X-A", "1") })
		ids = append(ids, e.ID)
	}
	b.ReportAllocs()
	for b.Loop() {
		if targets, err := w.Targets(b.Context(), ids); err != nil || len(targets) != len(ids) {
			b.Fatal(len(targets), err)
		}
	}
}
