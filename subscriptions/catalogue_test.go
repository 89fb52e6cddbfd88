package subscriptions_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/subscriptions"
)

// A second process has what the first one changed at its next look, and reads only that.
func TestCatalogueIsNoticedElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, there := w.Store, w.under(sealKey)
	put := func(name, schema string) {
		t.Helper()
		if _, _, err := here.PutEventType(t.Context(), name, subscriptions.EventTypeSettings{Schema: []byte(schema)}); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(name string) bool {
		t.Helper()
		if err := there.Catalogue().Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return there.Catalogue().Schemas().Check(name, "", []byte(`{}`)) != nil
	}
	if refused("a") || there.Catalogue().Schemas() != nil {
		t.Error("an empty catalogue is not nil")
	}
	put("a", `{"required":["x"]}`)
	put("b", `{}`)
	if !refused("a") || refused("b") || refused("c") {
		t.Error("the second process does not know")
	}
	same := there.Catalogue().Schemas()
	if refused("b"); there.Catalogue().Schemas() != same {
		t.Error("what has not changed is read again")
	}
	put("a", `{}`)
	put("b", `false`)
	if refused("a") || !refused("b") {
		t.Error("a change is not known")
	}
	for _, name := range []string{"a", "b"} {
		if err := here.DeleteEventType(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if refused("b") || there.Catalogue().Schemas() != nil || here.Catalogue().Schemas() != nil {
		t.Error("what is deleted still holds")
	}
}

// A schema that cannot be used is told of once, and checks nothing; the others hold.
func TestCatalogueWithASchemaOfNoUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, _, err := w.PutEventType(t.Context(), "good", subscriptions.EventTypeSettings{Schema: []byte(`false`)}); err != nil {
		t.Fatal(err)
	}
	w.exec(`INSERT INTO event_types (id, name, schema, created_at, updated_at) VALUES (1, 'bad', '{"type":"no"}', now(), now())`)
	if err := w.Catalogue().Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "the schema of bad") {
		t.Errorf("%v", err)
	}
	if err := w.Catalogue().Refresh(t.Context()); err != nil {
		t.Errorf("told again: %v", err)
	}
	known := w.Catalogue().Schemas()
	if known.Check("bad", "", []byte(`{}`)) != nil || known.Check("good", "", []byte(`{}`)) == nil {
		t.Error("the wrong one holds")
	}
}

// Many put one name at once: it is made once.
func TestPutEventTypeAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var group sync.WaitGroup
	made := make([]bool, 8)
	for n := range made {
		group.Go(func() {
			var err error
			_, made[n], err = w.PutEventType(t.Context(), "a", subscriptions.EventTypeSettings{Description: fmt.Sprint(n)})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	times := 0
	for _, m := range made {
		if m {
			times++
		}
	}
	if times != 1 {
		t.Errorf("made %d times", times)
	}
	if err := w.DeleteEventType(t.Context(), "a b"); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}
