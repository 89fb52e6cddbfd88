package api

import (
	"context"
	"encoding/base64"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
)

// attemptView is an attempt in an answer. Headers are a list: they keep their order, and a name may come twice.
type attemptView struct {
	ID                    string            `json:"id" example:"att_07xk9v0e8g0003f"`
	DeliveryID            string            `json:"delivery_id" example:"dlv_07xk9v0e8g0003f"`
	Attempt               int               `json:"attempt" doc:"1, 2, …"`
	StartedAt             stamp             `json:"started_at"`
	Method                *string           `json:"method" example:"POST" doc:"null of an endpoint of kind pull: its owner fetched it."`
	URL                   *string           `json:"url" doc:"As it was then, with the values in its query left out; null of an endpoint of kind pull."`
	RequestHeaders        map[string]string `json:"request_headers" doc:"The values of the endpoint's own headers are left out."`
	Status                *int              `json:"status" doc:"null: no answer, or none that could be read."`
	Outcome               string            `json:"outcome"`
	Error                 *string           `json:"error" doc:"What went wrong, in plain words."`
	ErrorDetail           *string           `json:"error_detail" doc:"The full technical error if there was no answer. null for a key that is bound to a tenant."`
	ResponseHeaders       map[string]string `json:"response_headers" doc:"One that came several times has its values joined with a comma."`
	ResponseBody          string            `json:"response_body" doc:"The beginning of the answer's body."`
	ResponseBodyEncoding  string            `json:"response_body_encoding" enum:"utf-8,base64" doc:"How response_body stands here: as it is, or in base64 if it is no UTF-8 text."`
	ResponseBodyTruncated bool              `json:"response_body_truncated" doc:"There was more of it."`
	Timings               timingsView       `json:"timings"`
	Address               *string           `json:"address" doc:"The address dialled. A key that is bound to a tenant sees only its class: public, private, loopback, …"`
}

// timingsView is in milliseconds; null: that stage did not happen (a connection that was kept has no first three).
type timingsView struct {
	DNS       *float64 `json:"dns_ms" nullable:"true"`
	Connect   *float64 `json:"connect_ms" nullable:"true"`
	TLS       *float64 `json:"tls_ms" nullable:"true"`
	FirstByte *float64 `json:"first_byte_ms" nullable:"true" doc:"From the attempt's start."`
	Total     *float64 `json:"total_ms" nullable:"true" doc:"From the attempt's start."`
}

func viewAttempt(a dispatcher.Attempt) attemptView {
	v := attemptView{
		ID: id.Attempt.Format(a.ID), DeliveryID: id.Delivery.Format(a.Delivery), Attempt: a.Number,
		StartedAt: stamp(a.StartedAt), URL: unlessEmpty(a.ShownURL()), RequestHeaders: showHeaders(a.RequestHeaders),
		Status: a.Status, Outcome: a.Outcome.String(), Error: unlessEmpty(a.Error),
		ErrorDetail:     unlessEmpty(a.ErrorDetail),
		ResponseHeaders: showHeaders(a.ResponseHeaders), ResponseBodyTruncated: a.Truncated,
		Timings: timingsView{
			DNS: milliseconds(a.Timings.DNS), Connect: milliseconds(a.Timings.Connect), TLS: milliseconds(a.Timings.TLS),
			FirstByte: milliseconds(a.Timings.FirstByte), Total: milliseconds(a.Timings.Total),
		},
		Address: unlessEmpty(a.Address),
	}
	if !a.Fetched {
		method := http.MethodPost
		v.Method = &method
	}
	v.ResponseBody, v.ResponseBodyEncoding = showBody(a.ResponseBody, a.Truncated)
	return v
}

// showBody gives a body as text where it is text. A truncated one may end within a character.
func showBody(body []byte, truncated bool) (text, encoding string) {
	whole := body
	for at := len(body) - 1; truncated && at >= 0 && at > len(body)-utf8.UTFMax; at-- {
		if utf8.RuneStart(body[at]) {
			if !utf8.FullRune(body[at:]) {
				whole = body[:at]
			}
			break
		}
	}
	if utf8.Valid(whole) {
		return string(whole), "utf-8"
	}
	return base64.StdEncoding.EncodeToString(body), "base64"
}

// showHeaders gives headers by name. Several of one name are joined as RFC 9110 §5.3 says.
func showHeaders(headers []signer.Header) map[string]string {
	out := make(map[string]string, len(headers))
	for _, h := range headers {
		if earlier, there := out[h.Name]; there {
			h.Value = earlier + ", " + h.Value
		}
		out[h.Name] = h.Value
	}
	return out
}

func milliseconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	ms := float64(*d) / float64(time.Millisecond)
	return &ms
}

type listAttemptsIn struct {
	DeliveryIn
	PageIn
}

func (s *server) listAttempts(ctx context.Context, in *listAttemptsIn) (*pageOut[attemptView], error) {
	d, err := s.visibleDelivery(ctx, in.Delivery)
	if err != nil {
		return nil, err
	}
	insider := caller(ctx).SeesAll()
	return readPage(id.Attempt, in.PageIn, func(limit int, before id.ID) ([]dispatcher.Attempt, error) {
		return s.d.Deliveries.Attempts(ctx, d.ID, limit, before)
	}, func(a dispatcher.Attempt) attemptView {
		if !insider {
			a = a.Outsider(s.d.AddressClass)
		}
		return viewAttempt(a)
	}, func(a dispatcher.Attempt) id.ID { return a.ID })
}
