package subscriptions_test

import (
	"testing"

	"github.com/postrider/postrider/internal/id"
)

func TestNamesOfWhatListsShow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.tenant(), w.tenant()
	e, _ := w.endpoint(one, nil)
	if _, err := w.DeleteEndpoint(t.Context(), one, id.Endpoint.Format(e.ID)); err != nil {
		t.Fatal(err)
	}
	nobody := w.ids.In(one.ID.Shard)
	names, err := w.TenantNames(t.Context(), []id.ID{one.ID, other.ID, one.ID, nobody})
	if err != nil || len(names) != 3 || names[one.ID] != one.Name || names[other.ID] != other.Name || names[nobody] != "" {
		t.Errorf("the names are %v, %v", names, err)
	}
	urls, err := w.EndpointURLs(t.Context(), []id.ID{e.ID, nobody})
	if err != nil || len(urls) != 2 || urls[e.ID] != e.URL || urls[nobody] != "" {
		t.Errorf("the URLs are %v, %v; a deleted endpoint's is still to be had", urls, err)
	}
	if none, err := w.EndpointURLs(t.Context(), nil); err != nil || len(none) != 0 {
		t.Errorf("of no endpoints: %v, %v", none, err)
	}
}
