package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
)

// Half an address is not taken for the whole: a list that has lost a part of its filter is another one.
func TestAddressesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newWorld(t).as(auth.RoleAdmin)
	for _, page := range []string{"/", "/deliveries", "/deliveries.csv", "/deliveries/bulk", "/events", "/audit-log"} {
		for _, query := range []string{"tenant=%zz", "state=failed;tenant=acme"} {
			if got := b.get("/console" + page + "?act=retry&" + query); got.status != http.StatusBadRequest || !got.has("the query of this address") {
				t.Errorf("%s?%s: %d", page, query, got.status)
			}
		}
	}
}

// What no column takes is a mistake of who asks, and not of ours.
func TestFiltersThatAreNoText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant, _ := w.tenant("Acme")
	b := w.as(auth.RoleAdmin)
	for _, query := range []string{
		"/deliveries?event_type=", "/deliveries.csv?event_type=", "/events?tenant=" + id.Tenant.Format(tenant.ID) + "&type=", "/audit-log?actor=",
	} {
		for _, bad := range []string{"%00", "a%00b", "%ff%fe", "%ed%a0%80"} {
			if got := b.get("/console" + query + bad); got.status != http.StatusUnprocessableEntity || !got.has("must be UTF-8 without NUL") {
				t.Errorf("%s%s: %d", query, bad, got.status)
			}
		}
	}
	if got := b.get("/console/deliveries/bulk?act=retry&event_type=%00"); got.status != http.StatusUnprocessableEntity {
		t.Errorf("in bulk: %d, at %s", got.status, got.path)
	}
}

// A body that is read as no form is not taken for an empty one.
func TestFormsThatAreNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(auth.RoleAdmin)
	const good = "name=order.paid&description=kept"
	for name, c := range map[string]struct {
		media, body string
		status      int
	}{
		"multipart":     {"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\norder.paid\r\n--x--", http.StatusUnsupportedMediaType},
		"JSON":          {"application/json", `{"name":"order.paid"}`, http.StatusUnsupportedMediaType},
		"plain text":    {"text/plain", good, http.StatusUnsupportedMediaType},
		"nothing said":  {"", good, http.StatusUnsupportedMediaType},
		"no media type": {";;", good, http.StatusUnsupportedMediaType},
		"a broken pair": {"application/x-www-form-urlencoded", good + "&x=%zz", http.StatusBadRequest},
		"a NUL":         {"application/x-www-form-urlencoded", good + "&x=%00", http.StatusBadRequest},
		"no UTF-8":      {"application/x-www-form-urlencoded", good + "&x=%ff", http.StatusBadRequest},
		"too large":     {"application/x-www-form-urlencoded", good + "&x=" + strings.Repeat("a", 2<<20), http.StatusRequestEntityTooLarge},
		"good":          {"application/x-www-form-urlencoded; charset=UTF-8", url.Values{"name": {"order.kept"}}.Encode(), http.StatusOK},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.base+"/console/new-event-type", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.media != "" {
			req.Header.Set("Content-Type", c.media)
		}
		if got := b.do(req); got.status != c.status {
			t.Errorf("%s: %d, want %d", name, got.status, c.status)
		}
	}
	if got := b.get("/console/event-types/order.paid"); got.status != http.StatusNotFound {
		t.Errorf("one of them was taken: %d", got.status)
	}
}
