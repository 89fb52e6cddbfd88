package console

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
)

// A file has so many rows at most, read so many at a time. The last line of one that was cut says so.
const (
	csvRows  = 50_000
	csvBatch = 250
)

var csvHead = []string{
	"delivery", "state", "reason", "event", "event_type", "tenant", "tenant_name", "endpoint", "url", "attempts", "last_outcome", "last_status",
	"created_at", "finished_at", "next_attempt_at",
}

// deliveriesCSV gives the list with its filter as a file (RFC 4180), the newest first. It goes out while it is read.
func (p *pages) deliveriesCSV(v *web.Visit) error {
	f, _, err := p.readFilter(v.Ctx(), web.Form{Values: v.R.URL.Query()}, v.Now)
	if err != nil {
		return err
	}
	first, err := p.d.Deliveries.List(v.Ctx(), f, csvBatch, id.ID{})
	if err != nil {
		return err
	}
	h := v.W.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="deliveries-`+v.Now.UTC().Format("20060102T150405Z")+`.csv"`)
	out := newCSV(v.W)
	out.row(csvHead)
	for batch, n := first, 0; len(batch) > 0; {
		rows, err := p.rows(v.Ctx(), batch)
		if err != nil {
			return p.brokenOff(v, out, err)
		}
		for _, r := range rows {
			out.row(csvRow(r))
		}
		out.Flush()
		if n += len(batch); len(batch) < csvBatch {
			break
		}
		if n >= csvRows {
			out.row([]string{"cut off after " + strconv.Itoa(n) + " rows; narrow the filter"})
			break
		}
		if batch, err = p.d.Deliveries.List(v.Ctx(), f, csvBatch, batch[len(batch)-1].ID); err != nil {
			return p.brokenOff(v, out, err)
		}
	}
	out.Flush()
	return nil
}

// brokenOff ends a file in the middle: its headers are out, so its last line has to say that it is not whole.
func (p *pages) brokenOff(v *web.Visit, out csvWriter, err error) error {
	if v.Ctx().Err() == nil { // else whoever asked has gone
		p.d.Logger.Error().Err(err).Str("request_id", v.W.Header().Get("X-Request-Id")).Msg("page.failed")
	}
	out.row([]string{"broken off: " + string(fault.CodeOf(err)) + "; the file is not whole"})
	out.Flush()
	return nil
}

func csvRow(r deliveryRow) []string {
	outcome, status := "", ""
	if r.LastOutcome != nil {
		outcome = r.LastOutcome.String()
	}
	if r.LastStatus != nil {
		status = strconv.Itoa(*r.LastStatus)
	}
	at := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return t.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return []string{
		id.Delivery.Format(r.ID), r.State.String(), string(r.Reason), id.Event.Format(r.Event), r.EventType, id.Tenant.Format(r.Tenant),
		r.TenantName, id.Endpoint.Format(r.Endpoint), dispatcher.Place(r.URL), strconv.Itoa(r.Attempts), outcome, status,
		at(&r.CreatedAt), at(r.FinishedAt), at(r.NextAttemptAt),
	}
}

type csvWriter struct{ *csv.Writer }

func newCSV(w io.Writer) csvWriter {
	out := csv.NewWriter(w)
	out.UseCRLF = true // RFC 4180, section 2
	return csvWriter{out}
}

// row writes cells that a spreadsheet takes for text: one that begins like a formula gets an apostrophe before it
// (OWASP, CSV injection). Whoever went away is not told of it.
func (w csvWriter) row(cells []string) {
	safe := make([]string, len(cells))
	for i, c := range cells {
		safe[i] = neutral(c)
	}
	_ = w.Write(safe)
}

func neutral(cell string) string {
	if first, _ := utf8.DecodeRuneInString(cell); cell != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", first) {
		return "'" + cell
	}
	return cell
}
