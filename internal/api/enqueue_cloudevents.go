package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/intake"
)

// ceMode is how a request carries CloudEvents, if it does (HTTP protocol binding, § 3).
type ceMode int

const (
	notCE ceMode = iota
	binaryCE
	structuredCE
	batchedCE
	otherCE // in a format that is not taken
)

// versionHeader, in the spelling of net/http, is what makes a request one in binary mode.
const versionHeader = "Ce-Specversion"

const ceTypes = "application/cloudevents"

// isCEType reports whether a content type is one of CloudEvents themselves.
func isCEType(contentType string) bool {
	return len(contentType) >= len(ceTypes) && strings.EqualFold(contentType[:len(ceTypes)], ceTypes)
}

func ceModeOf(h http.Header) ceMode {
	contentType := h.Get("Content-Type")
	if !isCEType(contentType) {
		if len(h[versionHeader]) > 0 {
			return binaryCE
		}
		return notCE
	}
	media, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	switch strings.TrimSpace(media) {
	case ceTypes + "+json":
		return structuredCE
	case ceTypes + "-batch+json":
		return batchedCE
	}
	return otherCE
}

// ceRoute is what a call that takes CloudEvents beside its own form has to know of them.
type ceRoute struct {
	limits map[ceMode]int64 // of the body, in bytes; modes that are not there are not taken
}

const ceRouteKey = "cloudevents"

// ceRouteOf is the call's, nil if it takes none.
func ceRouteOf(op *huma.Operation) *ceRoute {
	rt, _ := op.Metadata[ceRouteKey].(*ceRoute)
	return rt
}

// andCloudEvents has a call that takes one event take a CloudEvent as well.
func (s *server) andCloudEvents(more func(*huma.Operation)) func(*huma.Operation) {
	// Base64 needs four bytes for three.
	structured := s.d.MaxPayload*4/3 + envelopeRoom
	return s.orCloudEvents(more, ceRoute{map[ceMode]int64{binaryCE: s.d.MaxPayload, structuredCE: structured}},
		"A CloudEvent 1.0 is taken as well, in binary mode (`ce-` headers) or in structured mode (`application/cloudevents+json`): `type` "+
			"is the event's type, `id` its uid, and all its attributes stay with it. `?deliver_at=` and `?group_key=` may stand beside it.")
}

// andBatchOfCloudEvents has the call that takes a batch take one of CloudEvents as well.
func (s *server) andBatchOfCloudEvents(more func(*huma.Operation)) func(*huma.Operation) {
	return s.orCloudEvents(more, ceRoute{map[ceMode]int64{batchedCE: batchBody}},
		"A batch of CloudEvents 1.0 is taken as well (`application/cloudevents-batch+json`).")
}

func (s *server) orCloudEvents(more func(*huma.Operation), rt ceRoute, about string) func(*huma.Operation) {
	return func(op *huma.Operation) {
		more(op)
		op.Metadata = map[string]any{ceRouteKey: &rt}
		op.Description = about + "\n\n" + op.Description
		op.Middlewares = append(op.Middlewares, s.cloudEvents(rt)) // behind the gate
	}
}

// cloudEvents answers requests that carry CloudEvents, and leaves the others to the handler.
func (s *server) cloudEvents(rt ceRoute) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(ctx)
		mode := ceModeOf(r.Header)
		if mode == notCE {
			next(ctx)
			return
		}
		call, renamed, err := rt.read(ctx, r, mode)
		if err != nil {
			s.refuse(ctx, err)
			return
		}
		call.Tenant, call.Key = tenantOf(ctx.Context()).ID, r.Header.Get(keyHeader)
		receipts, replayed, err := s.d.Intake.Take(ctx.Context(), call)
		if err != nil {
			s.refuse(ctx, explainID(repoint(err, renamed)))
			return
		}
		answerReceipts(w, call.Tenant, receipts, replayed, call.Batch)
	}
}

// read makes a call of a request, and says by what name the request knows the fields of an event.
func (rt ceRoute) read(ctx huma.Context, r *http.Request, mode ceMode) (call intake.Call, renamed func(string) string, err error) {
	body, err := readAtMost(r, rt.limits[mode])
	if err != nil {
		return call, nil, err
	}
	var faults fault.Fields
	var events []cloudEvent
	if mode == binaryCE {
		events = []cloudEvent{binaryEvent(&faults, r.Header, ctx.Param("evt"), body)}
	} else {
		if events, err = readStructured(&faults, body, mode == batchedCE); err != nil {
			return call, nil, err
		}
		if given, path := events[0].attributes["type"], ctx.Param("evt"); path != "" && given != nil && given != path {
			faults.Addf("/type", "is another type than the path's")
		}
	}
	call = intake.Call{Batch: mode == batchedCE, Events: make([]intake.Event, len(events))}
	for n, c := range events {
		call.Events[n] = c.event(&faults)
	}
	readCEQuery(&faults, ctx.URL(), &call)
	return call, ceNames(mode), faults.Err()
}

// readCEQuery reads what may stand beside one CloudEvent.
func readCEQuery(faults *fault.Fields, u url.URL, call *intake.Call) {
	for name, values := range u.Query() { // each is there once, says the gate
		switch {
		case call.Batch || !slices.Contains([]string{"deliver_at", "group_key", "uid"}, name):
			faults.Addf("?"+name, "there is no such query parameter")
		case values[0] == "":
			faults.Addf("?"+name, "is empty; leave it out or give one")
		case name == "deliver_at":
			call.Events[0].DeliverAt = deliverAt(faults, "?deliver_at", values[0])
		case name == "group_key":
			call.Events[0].GroupKey = values[0]
		case values[0] != call.Events[0].UID:
			faults.Addf("?uid", "is another one than the CloudEvent's id, which is its uid")
		}
	}
}

// ceNames says where in a request in this mode the fields of an event are.
func ceNames(mode ceMode) func(string) string {
	names := map[string]string{"/uid": "/id", "/content_type": "/datacontenttype", "/metadata": ""}
	if mode == binaryCE {
		names = map[string]string{"/uid": "ce-id", "/type": "ce-type", "/content_type": "Content-Type", "/metadata": ""}
	}
	return func(pointer string) string {
		rest, batched := strings.CutPrefix(pointer, "/events")
		at := ""
		if mode == batchedCE && batched && rest != "" {
			n := strings.IndexByte(rest[1:], '/') + 1
			if n == 0 {
				return rest
			}
			at, pointer = rest[:n], rest[n:]
		}
		switch name, known := names[pointer]; {
		case known:
			return at + name
		case pointer == "/group_key", pointer == "/deliver_at":
			return "?" + pointer[1:]
		case mode != binaryCE && strings.HasPrefix(pointer, "/payload"):
			return at + "/data" + strings.TrimPrefix(pointer, "/payload")
		}
		return at + pointer
	}
}

// explainID says of an id that is no uid why it should be one. The fault is this request's own.
func explainID(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err
	}
	for n, field := range f.Fields {
		if strings.HasSuffix(field.Pointer, "id") && strings.HasPrefix(field.Detail, "a uid ") {
			f.Fields[n].Detail = "is the event's uid as well, and " + field.Detail
		}
	}
	return err
}

// readAtMost reads a body whose length was looked at, if it was announced.
func readAtMost(r *http.Request, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	var nerr net.Error
	switch {
	case int64(len(body)) > limit:
		return nil, fault.New(fault.TooLarge, "the body is over the limit of %d bytes", limit)
	case errors.As(err, &nerr) && nerr.Timeout():
		return nil, tooSlow()
	case err != nil && !errors.Is(err, context.Canceled):
		return nil, brokenOff(err)
	}
	return body, err
}

// check is the gate's look at a request that carries CloudEvents: is it in a form that the call takes.
func (rt *ceRoute) check(mode ceMode) error {
	var form string
	switch mode {
	case notCE:
		return nil
	case binaryCE:
		form = "a CloudEvent in binary mode"
	case structuredCE:
		form = "one CloudEvent"
	case batchedCE:
		form = "a batch of CloudEvents"
	case otherCE:
		return fault.New(fault.UnsupportedMedia, "of the formats of CloudEvents only JSON is taken, as %s+json or, by events:batch, as %s-batch+json", ceTypes, ceTypes)
	}
	if _, taken := rt.limits[mode]; taken {
		return nil
	}
	if mode == batchedCE {
		return fault.New(fault.UnsupportedMedia, "%s is for events:batch", form)
	}
	return fault.New(fault.UnsupportedMedia, "%s is not for events:batch, which takes %s-batch+json", form, ceTypes)
}
