package api

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
)

// Values of headers that many answers share. Nothing changes a slice of a header; Set and Add put another in its place.
var (
	jsonHeader   = []string{jsonType}
	soonHeader   = []string{"1"}
	repeatHeader = []string{"true"}
)

const receiptSize = 192 // bytes, about

// answerReceipts writes what the general way makes of receiptOut or batchOut.
func answerReceipts(w http.ResponseWriter, tenant id.ID, receipts []intake.Receipt, replayed, batch bool) {
	h := w.Header()
	h["Content-Type"], h["Retry-After"] = jsonHeader, soonHeader
	if replayed {
		h["Idempotent-Replayed"] = repeatHeader
	}
	body := make([]byte, 0, receiptSize*len(receipts)+16)
	if batch {
		body = append(body, `{"data":[`...)
	} else {
		h["Location"] = []string{eventPath(tenant, receipts[0].ID)}
	}
	for n, r := range receipts {
		if n > 0 {
			body = append(body, ',')
		}
		body = appendReceipt(body, r)
	}
	if batch {
		body = append(body, "]}"...)
	}
	body = append(body, '\n')
	if batch { // of less, net/http finds the length out
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write(body) // whoever asked has gone
}

func eventPath(tenant, event id.ID) string {
	return "/v1/tenants/" + id.Tenant.Format(tenant) + "/events/" + id.Event.Format(event)
}

// appendReceipt writes a receipt as encoding/json writes receiptView.
func appendReceipt(b []byte, r intake.Receipt) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, id.Event.Format(r.ID)...)
	b = append(b, `","type":`...)
	b = appendText(b, r.Type)
	if r.UID != "" {
		b = append(b, `,"uid":`...)
		b = appendText(b, r.UID)
	}
	b = append(b, `,"status":"`...)
	b = append(b, r.Status...)
	b = append(b, `","deliveries":`...)
	b = strconv.AppendInt(b, int64(r.Deliveries), 10)
	b = append(b, `,"created_at":"`...)
	b = r.CreatedAt.UTC().AppendFormat(b, timeForm)
	if r.DeliverAt != nil {
		b = append(b, `","deliver_at":"`...)
		b = r.DeliverAt.UTC().AppendFormat(b, timeForm)
	}
	return append(b, `"}`...)
}

// appendText writes a string. Types and uids need no escapes, as they were accepted.
func appendText(b []byte, s string) []byte {
	for n := range len(s) {
		if c := s[n]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			text, _ := json.Marshal(s) // of a string: cannot fail
			return append(b, text...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
