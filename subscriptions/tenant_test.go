package subscriptions_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

func TestATenantIsWhatItWasMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := must(w.CreateTenant(t.Context(), subscriptions.NewTenant{
		UID: ptr("acme:1"), Name: "Acme & Söhne", ContactEmail: ptr("ops@example.com"),
		Metadata: map[string]any{"plan": "gold", "big": json.Number("9007199254740993"), "deep": []any{map[string]any{"a": nil}}},
	}))(t)
	if made.ID.Shard != id.Bucket(made.ID.N) {
		t.Error("the tenant is not in its bucket")
	}
	if !made.CreatedAt.Equal(w.clock.now()) || made.CreatedAt.Location() != time.UTC || !made.UpdatedAt.Equal(made.CreatedAt) {
		t.Errorf("made at %v, changed at %v", made.CreatedAt, made.UpdatedAt)
	}
	for _, ref := range []string{id.Tenant.Format(made.ID), "acme:1"} {
		if got := must(w.Tenant(t.Context(), ref))(t); !reflect.DeepEqual(got, made) {
			t.Errorf("%s reads %+v, want %+v", ref, got, made)
		}
	}
	if made.Metadata["big"] != json.Number("9007199254740993") {
		t.Errorf("a large number comes back as %v", made.Metadata["big"])
	}
	plain := must(w.CreateTenant(t.Context(), subscriptions.NewTenant{Name: "b"}))(t)
	if plain.UID != nil || plain.ContactEmail != nil || plain.Metadata == nil || len(plain.Metadata) != 0 {
		t.Errorf("the defaults are %+v", plain)
	}
}

func TestTenantFaultsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.CreateTenant(t.Context(), subscriptions.NewTenant{
		UID: ptr("a b"), Name: " ", ContactEmail: ptr("Ops <ops@example.com>"), Metadata: map[string]any{"x": "\x00"},
	})
	if got := pointers(t, err); !slices.Equal(got, []string{"/uid", "/name", "/contact_email", "/metadata"}) {
		t.Errorf("at fault are %v", got)
	}
	if n := w.count(`SELECT FROM tenants`); n != 0 {
		t.Errorf("%d rows are left of it", n)
	}
}

func TestTenantValues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	deep := any("x")
	for range 40 {
		deep = []any{deep}
	}
	uid := func(s string) subscriptions.NewTenant { return subscriptions.NewTenant{Name: "a", UID: &s} }
	mail := func(s string) subscriptions.NewTenant { return subscriptions.NewTenant{Name: "a", ContactEmail: &s} }
	meta := func(v any) subscriptions.NewTenant {
		return subscriptions.NewTenant{Name: "a", Metadata: map[string]any{"x": v}}
	}
	for i, test := range []struct {
		n  subscriptions.NewTenant
		at string // "" is taken
	}{
		{uid("A-z_0.9:x"), ""},
		{uid(strings.Repeat("u", 128)), ""},
		{uid(""), "/uid"},
		{uid(strings.Repeat("u", 129)), "/uid"},
		{uid("a/b"), "/uid"},
		{uid("a\n"), "/uid"},
		{uid("ü"), "/uid"},
		{uid("ten_1"), "/uid"},
		{uid("evt_x"), "/uid"},
		{subscriptions.NewTenant{}, "/name"},
		{subscriptions.NewTenant{Name: strings.Repeat("ö", 200)}, ""},
		{subscriptions.NewTenant{Name: strings.Repeat("ö", 201)}, "/name"},
		{subscriptions.NewTenant{Name: "a\x00b"}, "/name"},
		{subscriptions.NewTenant{Name: "a\xffb"}, "/name"},
		{subscriptions.NewTenant{Name: `"><svg onload=alert(1)>`}, ""},
		{mail("a@b"), ""},
		{mail(""), "/contact_email"},
		{mail("nobody"), "/contact_email"},
		{mail("a@b\r\nBcc: c@d"), "/contact_email"},
		{mail("a@b, c@d"), "/contact_email"},
		{mail("a@" + strings.Repeat("b", 253)), "/contact_email"},
		{meta(strings.Repeat("<", 16<<10-8)), ""}, // {"x":"…"} is 8 bytes more
		{meta(strings.Repeat("<", 16<<10-7)), "/metadata"},
		{meta(deep), "/metadata"},
		{meta(map[string]any{"a\x00": 1}), "/metadata"},
		{meta(json.Number("1e308")), ""},
		{meta(json.Number("1e400")), "/metadata"},
		{meta(json.Number("1e-20000")), "/metadata"},
		{meta(json.Number("-0.5E-3")), ""},
		{meta(json.Number("bogus")), "/metadata"},
		{meta(func() {}), "/metadata"},
		{meta(int64(5)), ""},
	} {
		_, err := w.CreateTenant(t.Context(), test.n)
		switch {
		case test.at == "" && err != nil:
			t.Errorf("%d: %v", i, err)
		case test.at != "":
			if got := pointers(t, err); !slices.Equal(got, []string{test.at}) {
				t.Errorf("%d: at fault are %v, want %s", i, got, test.at)
			}
		}
	}
}

func TestTwoTenantsDoNotShareAUID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := must(w.CreateTenant(t.Context(), subscriptions.NewTenant{Name: "a", UID: ptr("acme")}))(t)
	_, err := w.CreateTenant(t.Context(), subscriptions.NewTenant{Name: "b", UID: ptr("acme")})
	wantCode(t, "a second one", err, fault.Conflict)
	other := w.tenant()
	_, err = w.UpdateTenant(t.Context(), id.Tenant.Format(other.ID), subscriptions.TenantPatch{UID: put("acme")})
	wantCode(t, "a patch", err, fault.Conflict)
	if _, _, err := w.DeleteTenant(t.Context(), id.Tenant.Format(first.ID)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.UpdateTenant(t.Context(), id.Tenant.Format(other.ID), subscriptions.TenantPatch{UID: put("acme")}); err != nil {
		t.Errorf("the uid is not free again: %v", err)
	}
}

func TestTenantPatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := must(w.CreateTenant(t.Context(), subscriptions.NewTenant{
		Name: "a", UID: ptr("u"), ContactEmail: ptr("a@b"), Metadata: map[string]any{"k": "v", "l": "w"},
	}))(t)
	ref := id.Tenant.Format(made.ID)
	patch := func(p subscriptions.TenantPatch) subscriptions.Tenant {
		w.clock.advance(time.Second)
		got := must(w.UpdateTenant(t.Context(), ref, p))(t)
		if read := must(w.Tenant(t.Context(), ref))(t); !reflect.DeepEqual(read, got) {
			t.Errorf("the answer is %+v, a read gives %+v", got, read)
		}
		return got
	}
	if got := patch(subscriptions.TenantPatch{}); !reflect.DeepEqual(got, made) {
		t.Errorf("an empty patch changes it to %+v", got)
	}
	if got := patch(subscriptions.TenantPatch{Name: put("a")}); !got.UpdatedAt.Equal(made.UpdatedAt) {
		t.Error("the same name counts as a change")
	}
	got := patch(subscriptions.TenantPatch{Name: put("b"), Metadata: put(map[string]any{"l": "x"})})
	if got.Name != "b" || *got.UID != "u" || fmt.Sprint(got.Metadata) != "map[l:x]" || !got.UpdatedAt.Equal(w.clock.now()) {
		t.Errorf("it is %+v", got)
	}
	got = patch(subscriptions.TenantPatch{UID: null[string](), ContactEmail: null[string](), Metadata: null[map[string]any]()})
	if got.UID != nil || got.ContactEmail != nil || len(got.Metadata) != 0 || got.Name != "b" {
		t.Errorf("nulls leave %+v", got)
	}
	_, err := w.UpdateTenant(t.Context(), ref, subscriptions.TenantPatch{Name: null[string]()})
	if got := pointers(t, err); !slices.Equal(got, []string{"/name"}) {
		t.Errorf("no name: %v", got)
	}
}

// A patch that comes while another change is under way is put on top of it, not over it.
func TestTenantPatchesDoNotUndoEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.tenant()
	first := must(w.pool.Begin(t.Context()))(t)
	if _, err := first.Exec(t.Context(), `UPDATE tenants SET name = 'first' WHERE id = $1`, made.ID.N); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := w.UpdateTenant(t.Context(), id.Tenant.Format(made.ID), subscriptions.TenantPatch{ContactEmail: put("a@b")})
		done <- err
	}()
	w.waitForLock(done)
	if err := errors.Join(first.Commit(t.Context()), <-done); err != nil {
		t.Fatal(err)
	}
	if got := must(w.Tenant(t.Context(), id.Tenant.Format(made.ID)))(t); got.Name != "first" || *got.ContactEmail != "a@b" {
		t.Errorf("it became %+v", got)
	}
}

func TestTenantsArePagedNewestFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var want []id.ID
	for range 5 {
		want = append([]id.ID{w.tenant().ID}, want...)
	}
	if _, _, err := w.DeleteTenant(t.Context(), id.Tenant.Format(want[2])); err != nil {
		t.Fatal(err)
	}
	want = slices.Delete(want, 2, 3)
	var got []id.ID
	var before id.ID
	for range 10 { // pages, at most
		page := must(w.Tenants(t.Context(), 2, before))(t)
		if len(page) == 0 {
			break
		}
		for _, tenant := range page {
			got = append(got, tenant.ID)
		}
		before = got[len(got)-1]
		w.tenant() // arrives meanwhile, and shows nowhere
	}
	if !slices.Equal(got, want) {
		t.Errorf("the pages hold %v, want %v", got, want)
	}
}

func TestNoSuchTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.tenant()
	moved := id.ID{Shard: (made.ID.Shard + 1) % id.Buckets, N: made.ID.N}
	for _, ref := range []string{
		"", "nobody", "ten_", id.Tenant.Format(moved), id.Endpoint.Format(made.ID), "a\x00b", "\xff", strings.Repeat("x", 10_000),
	} {
		_, err := w.Tenant(t.Context(), ref)
		wantCode(t, "read "+ref, err, fault.NotFound)
		_, err = w.UpdateTenant(t.Context(), ref, subscriptions.TenantPatch{Name: put("")}) // before the patch is judged
		wantCode(t, "change "+ref, err, fault.NotFound)
		_, _, err = w.DeleteTenant(t.Context(), ref)
		wantCode(t, "delete "+ref, err, fault.NotFound)
	}
}

func TestADeletedTenantTakesItsEndpointsAlong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made, neighbour := w.tenant(), w.tenant()
	first, _ := w.endpoint(made, func(n *subscriptions.NewEndpoint) {
		n.UID, n.Headers = ptr("one"), headers("Authorization", "Bearer x")
	})
	second, _ := w.endpoint(made, nil)
	gone, _ := w.endpoint(made, nil)
	stays, _ := w.endpoint(neighbour, nil)
	must(w.DeleteEndpoint(t.Context(), made, ref(gone)))(t)
	at := w.clock.advance(time.Minute)
	deleted, endpoints, err := w.DeleteTenant(t.Context(), id.Tenant.Format(made.ID))
	if err != nil || deleted.ID != made.ID || !deleted.UpdatedAt.Equal(at) {
		t.Fatalf("%+v, %v", deleted, err)
	}
	slices.SortFunc(endpoints, func(a, b id.ID) int { return int(a.N - b.N) })
	if !slices.Equal(endpoints, []id.ID{first.ID, second.ID}) {
		t.Errorf("its endpoints are %v", endpoints)
	}
	for _, ref := range []string{ref(first), "one"} {
		_, err := w.Endpoint(t.Context(), made, ref)
		wantCode(t, ref, err, fault.NotFound)
	}
	if list := must(w.Endpoints(t.Context(), made, 10, id.ID{}))(t); len(list) != 0 {
		t.Errorf("listed are %v", list)
	}
	if e := must(w.EndpointByID(t.Context(), first.ID))(t); e.DeletedAt == nil || !e.DeletedAt.Equal(at) || e.Version != 2 {
		t.Errorf("history finds %+v", e)
	}
	if n := w.count(`SELECT FROM endpoint_secrets WHERE endpoint_id <> $1`, stays.ID.N); n != 0 {
		t.Errorf("%d secrets outlive their tenant", n)
	}
	if n := w.count(`SELECT FROM endpoints WHERE headers_sealed IS NOT NULL`); n != 0 {
		t.Error("the static headers outlive their tenant")
	}
	if target := w.target(stays); len(target.Secrets) != 1 || target.Deleted {
		t.Errorf("the neighbour's endpoint is %+v", target)
	}
	_, _, err = w.CreateEndpoint(t.Context(), made, subscriptions.NewEndpoint{URL: "https://example.com"})
	wantCode(t, "a new endpoint", err, fault.NotFound)
}

// An endpoint that is being made and the deletion of its tenant: one of them waits for the other, so that no live
// endpoint is left behind.
func TestNoEndpointOutlivesItsTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 10 {
		made := w.tenant()
		done := make(chan error, 4)
		for range 3 {
			go func() {
				_, _, err := w.CreateEndpoint(t.Context(), made, subscriptions.NewEndpoint{URL: "https://example.com"})
				if fault.Is(err, fault.NotFound) {
					err = nil
				}
				done <- err
			}()
		}
		go func() {
			_, _, err := w.DeleteTenant(t.Context(), id.Tenant.Format(made.ID))
			done <- err
		}()
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	if n := w.count(`SELECT FROM endpoints WHERE deleted_at IS NULL`); n != 0 {
		t.Errorf("%d endpoints outlive their tenant", n)
	}
}
