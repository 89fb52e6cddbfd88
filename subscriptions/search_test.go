package subscriptions_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// allFound pages through a search, and checks that no page is longer than it may be or leads to itself.
func allFound[T any](
	t *testing.T, text string, limit int, idOf func(T) id.ID,
	search func(context.Context, string, int, id.ID) (subscriptions.Found[T], error),
) (all []id.ID) {
	t.Helper()
	for before := (id.ID{}); ; {
		page, err := search(t.Context(), text, limit, before)
		if err != nil || len(page.Things) > limit {
			t.Fatalf("%d of %d, %v", len(page.Things), limit, err)
		}
		for _, thing := range page.Things {
			all = append(all, idOf(thing))
		}
		if page.Next.IsZero() {
			return all
		}
		if !before.IsZero() && newestFirst(before, page.Next) >= 0 {
			t.Fatalf("%v comes after %v", page.Next, before)
		}
		before = page.Next
	}
}

func newestFirst(a, b id.ID) int {
	return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(b.Shard, a.Shard))
}

func TestSearchesOverAllTenants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.under([]byte(strings.Repeat("k", 32)))
	var tenants, endpoints []id.ID
	names, urls := map[id.ID]string{}, map[id.ID]string{}
	for i := range 9 {
		name := []string{"Sunny Side", "Rain", "sunday"}[i%3]
		ten, err := store.CreateTenant(t.Context(), subscriptions.NewTenant{Name: name, UID: ptr(fmt.Sprint("cust-", i))})
		if err != nil {
			t.Fatal(err)
		}
		tenants, names[ten.ID] = append(tenants, ten.ID), name
		url := fmt.Sprintf("https://h%d.example/%s", i%2, []string{"a", "b"}[i%2])
		e, _, err := store.CreateEndpoint(t.Context(), ten, subscriptions.NewEndpoint{URL: url, UID: ptr(fmt.Sprint("hook-", i))})
		if err != nil {
			t.Fatal(err)
		}
		endpoints, urls[e.ID] = append(endpoints, e.ID), url
	}
	// One that was deleted is found no more.
	w.exec(`UPDATE endpoints SET deleted_at = created_at WHERE id = $1`, endpoints[4].N)
	endpoints = slices.Delete(endpoints, 4, 5)
	slices.SortFunc(tenants, newestFirst)
	slices.SortFunc(endpoints, newestFirst)
	pick := func(from []id.ID, keep func(id.ID) bool) []id.ID {
		return slices.DeleteFunc(slices.Clone(from), func(i id.ID) bool { return !keep(i) })
	}
	for _, look := range []int{1, 3, 1000} {
		store.LookAt(look)
		for text, want := range map[string][]id.ID{
			"":       endpoints,
			"h1.ex":  pick(endpoints, func(e id.ID) bool { return strings.Contains(urls[e], "h1.ex") }),
			" hook-": endpoints,
			"ook-":   {},
			"%":      {},
		} {
			got := allFound(t, text, 2, func(e subscriptions.Endpoint) id.ID { return e.ID }, store.SearchEndpoints)
			if !slices.Equal(got, want) {
				t.Errorf("endpoints %q, %d at a time: got %v, want %v", text, look, got, want)
			}
		}
		for text, want := range map[string][]id.ID{
			"":       tenants,
			"SUN":    pick(tenants, func(n id.ID) bool { return names[n] != "Rain" }),
			"Side":   pick(tenants, func(n id.ID) bool { return names[n] == "Sunny Side" }),
			"cust-3": pick(tenants, func(n id.ID) bool { return n == tenants[5] }),
			"ust-":   {},
		} {
			got := allFound(t, text, 2, func(n subscriptions.Tenant) id.ID { return n.ID }, store.SearchTenants)
			if !slices.Equal(got, want) {
				t.Errorf("tenants %q, %d at a time: got %v, want %v", text, look, got, want)
			}
		}
	}
	for _, text := range []string{"a\x00b", "\xff", strings.Repeat("a", 501)} {
		if _, err := store.SearchEndpoints(t.Context(), text, 1, id.ID{}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%.10q: %v", text, err)
		}
	}
}
