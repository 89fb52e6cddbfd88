package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// filterSample is the body that tries a filter.
type filterSample struct {
	Filter    *string         `json:"filter,omitempty" nullable:"true" doc:"A CEL expression. Absent: the endpoint's own."`
	Payload   json.RawMessage `json:"payload" doc:"Any JSON value."`
	Type      *string         `json:"type,omitempty" nullable:"true" example:"order.paid" doc:"What event.type is; postrider.test if absent."`
	UID       *string         `json:"uid,omitempty" nullable:"true" doc:"What event.uid is."`
	GroupKey  *string         `json:"group_key,omitempty" nullable:"true" doc:"What event.group_key is."`
	CreatedAt *string         `json:"created_at,omitempty" nullable:"true" format:"date-time" doc:"What event.created_at is; now if absent."`
}

func (filterSample) example() string {
	return `{"filter":"event.type == 'order.paid' && payload.total > 100","type":"order.paid","payload":{"order":1001,"total":120.5}}`
}

type testFilterIn struct {
	EndpointIn
	Body filterSample
}

type filterResult struct {
	Matches bool   `json:"matches"`
	Error   string `json:"error,omitempty" doc:"Why the filter cannot tell of this payload, which counts as no."`
}

type testFilterOut struct{ Body filterResult }

// testFilter says what a filter makes of a sample. The event types that the endpoint subscribes to are another matter.
func (s *server) testFilter(ctx context.Context, in *testFilterIn) (*testFilterOut, error) {
	e, err := s.d.Subscriptions.Endpoint(ctx, tenantOf(ctx), in.Endpoint)
	if err != nil {
		return nil, err
	}
	expr := text(e.Filter)
	if in.Body.Filter != nil {
		expr = *in.Body.Filter
	}
	var faults fault.Fields
	sample := subscriptions.FilterSample{
		ID: id.Event.Format(id.ID{Shard: e.ID.Shard, N: 1}), UID: text(in.Body.UID), GroupKey: text(in.Body.GroupKey), Type: testType,
		CreatedAt: parseTime(&faults, "/created_at", text(in.Body.CreatedAt)), Payload: in.Body.Payload,
	}
	if given := text(in.Body.Type); given != "" {
		sample.Type = given
	}
	if sample.CreatedAt.IsZero() {
		sample.CreatedAt = time.Now().UTC()
	}
	result, err := subscriptions.TestFilter(expr, sample)
	faults.Add("/filter", err)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return &testFilterOut{filterResult(result)}, nil
}
