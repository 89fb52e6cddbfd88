package console_test

import (
	"encoding/csv"
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
)

// A spreadsheet that opens the file runs nothing that a tenant wrote.
func TestCellsOfTheFileAreNeutral(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := map[string]string{}
	for _, name := range []string{"=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\tx", "＝1+1", "＠SUM(A1)", "Acme, \"the\"\nfirst"} {
		tenant, _ := w.tenant(name)
		_, dlv := w.event(tenant, `{}`)
		want[id.Delivery.Format(dlv)] = name
	}
	got := w.as(auth.RoleViewer).get("/console/deliveries.csv")
	if got.status != http.StatusOK || got.header.Get("Content-Type") != "text/csv; charset=utf-8" ||
		!strings.HasPrefix(got.header.Get("Content-Disposition"), "attachment; ") {
		t.Fatalf("%d %v", got.status, got.header)
	}
	rows, err := csv.NewReader(strings.NewReader(got.body)).ReadAll()
	if err != nil || len(rows) != len(want)+1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		name := want[row[0]]
		for _, cell := range row {
			if first := []rune(cell + " ")[:1]; strings.ContainsAny(string(first), "=+-@\t\r\n＝＋－＠") {
				t.Errorf("a cell begins like a formula: %q", cell)
			}
		}
		if strings.TrimPrefix(row[6], "'") != strings.TrimSpace(name) && strings.TrimPrefix(row[6], "'") != name {
			t.Errorf("the name %q has become %q", name, row[6])
		}
	}
}

func TestTheFileHasAllRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant, _ := w.tenant("Acme")
	for range 260 {
		w.event(tenant, `{}`)
	}
	b := w.as(auth.RoleViewer)
	got := b.get("/console/deliveries.csv?state=pending")
	if n := strings.Count(got.body, "dlv_"); n != 260 {
		t.Errorf("the file has %d of 260 deliveries", n)
	}
	if got := b.get("/console/deliveries.csv?state=nonsense"); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a bad filter: %d", got.status)
	}
}
