package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// eventTypeView is an entry of the catalogue in an answer.
type eventTypeView struct {
	Type        string          `json:"type" example:"order.paid"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema" doc:"The JSON Schema that payloads have to fulfil; null: none."`
	Example     json.RawMessage `json:"example" doc:"A payload; null: none."`
	Archived    bool            `json:"archived" doc:"Not offered any more. Events of it are accepted as before, and its schema still holds."`
	CreatedAt   stamp           `json:"created_at"`
	UpdatedAt   stamp           `json:"updated_at"`
}

func viewEventType(t subscriptions.EventType) eventTypeView {
	return eventTypeView{
		Type: t.Name, Description: t.Description, Schema: orNull(t.Schema), Example: orNull(t.Example),
		Archived: t.ArchivedAt != nil, CreatedAt: stamp(t.CreatedAt), UpdatedAt: stamp(t.UpdatedAt),
	}
}

func orNull(text []byte) json.RawMessage {
	if text == nil {
		return json.RawMessage("null")
	}
	return text
}

// unlessNull takes null for nothing.
func unlessNull(text json.RawMessage) []byte {
	if text == nil || bytes.Equal(text, []byte("null")) {
		return nil
	}
	return text
}

// EventTypeIn is the path of one entry of the catalogue.
type EventTypeIn struct {
	Type string `path:"type" doc:"The event type's name." example:"order.paid"`
}

type newEventType struct {
	Description *string         `json:"description,omitempty" nullable:"true" example:"An order was paid in full."`
	Schema      json.RawMessage `json:"schema,omitempty" doc:"A JSON Schema of the draft 2020-12. An event whose payload breaks it is refused. It can refer to itself alone."`
	Example     json.RawMessage `json:"example,omitempty" doc:"A payload, which has to fulfil the schema. It is what a test of the type sends."`
	Archived    *bool           `json:"archived,omitempty" nullable:"true" doc:"Not to be offered any more."`
}

func (newEventType) example() string {
	return `{"description":"An order was paid in full.",` +
		`"schema":{"type":"object","required":["order","total"],"properties":{"order":{"type":"integer"},"total":{"type":"string"}}},` +
		`"example":{"order":1001,"total":"49.90"}}`
}

type putEventTypeIn struct {
	EventTypeIn
	Body newEventType
}

type putEventTypeOut struct {
	Status   int
	Location string `header:"Location"`
	Body     eventTypeView
}

// putEventType replaces all of an entry: what is not given is not there any more.
func (s *server) putEventType(ctx context.Context, in *putEventTypeIn) (*putEventTypeOut, error) {
	t, made, err := s.d.Subscriptions.PutEventType(ctx, in.Type, subscriptions.EventTypeSettings{
		Description: text(in.Body.Description), Schema: unlessNull(in.Body.Schema), Example: unlessNull(in.Body.Example),
		Archived: in.Body.Archived != nil && *in.Body.Archived,
	})
	if err != nil {
		return nil, err
	}
	out := &putEventTypeOut{Status: http.StatusOK, Body: viewEventType(t)}
	if made {
		out.Status, out.Location = http.StatusCreated, "/v1/event-types/"+t.Name
	}
	return out, nil
}

// alsoCreated documents a PUT that makes what was not there.
func alsoCreated(op *huma.Operation) {
	op.Responses["201"] = &huma.Response{
		Description: "It was not there and is now",
		Content:     map[string]*huma.MediaType{jsonType: {Schema: &huma.Schema{Ref: "#/components/schemas/EventType"}}},
	}
}

type listEventTypesIn struct {
	PageIn
	Archived string `query:"archived" enum:"true,false" doc:"Only those that are archived, or only those that are not."`
}

func (s *server) listEventTypes(ctx context.Context, in *listEventTypesIn) (*pageOut[eventTypeView], error) {
	var archived *bool
	if in.Archived != "" {
		wanted := in.Archived == "true"
		archived = &wanted
	}
	return readPage(id.EventType, in.PageIn, func(limit int, before id.ID) ([]subscriptions.EventType, error) {
		return s.d.Subscriptions.EventTypes(ctx, archived, limit, before)
	}, viewEventType, func(t subscriptions.EventType) id.ID { return t.ID })
}

type eventTypeOut struct{ Body eventTypeView }

func (s *server) readEventType(ctx context.Context, in *EventTypeIn) (*eventTypeOut, error) {
	t, err := s.d.Subscriptions.EventType(ctx, in.Type)
	if err != nil {
		return nil, err
	}
	return &eventTypeOut{Body: viewEventType(t)}, nil
}

func (s *server) deleteEventType(ctx context.Context, in *EventTypeIn) (*struct{}, error) {
	if err := s.d.Subscriptions.DeleteEventType(ctx, in.Type); err != nil {
		return nil, err
	}
	return &struct{}{}, nil
}

// typeExample is the catalogue's example of a type; nil: there is none.
func (s *server) typeExample(ctx context.Context, eventType string) ([]byte, error) {
	t, err := s.d.Subscriptions.EventType(ctx, eventType)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return t.Example, err
}
