package api

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/postrider/postrider/internal/pg"
)

// route is one line of the table in routes.go.
type route struct {
	method, path string
	status       int // of the good answer
	may          access
	id           string // operationId
	summary      string
	act          act
	more         func(*huma.Operation) // what few routes have: a body limit of their own, further errors; may be nil
}

// act is a handler, with what has to be known of it before it is called.
type act struct {
	register  func(huma.API, huma.Operation)
	takesJSON bool
}

// handle makes an act of a method: its input's tags say what is read from the request, its output's what is answered.
func handle[I, O any](h func(context.Context, *I) (*O, error)) act {
	body, takesJSON := reflect.TypeFor[I]().FieldByName("Body")
	return act{
		register: func(api huma.API, op huma.Operation) {
			if takesJSON {
				op.RequestBody = exampleOf(body.Type)
			}
			if op.Method == http.MethodGet {
				h = again(h)
			}
			huma.Register(api, op, h)
		},
		takesJSON: takesJSON,
	}
}

// again has a handler that only reads run once more if its connection to the database broke off.
func again[I, O any](h func(context.Context, *I) (*O, error)) func(context.Context, *I) (*O, error) {
	return func(ctx context.Context, in *I) (*O, error) {
		return pg.ReadAgain(ctx, func() (*O, error) { return h(ctx, in) })
	}
}

// exampleOf is the start of a body's description: an example that works as it is. One made up of all the fields would
// be full of what one does not want.
func exampleOf(body reflect.Type) *huma.RequestBody {
	if body.Kind() == reflect.Pointer {
		body = body.Elem()
	}
	media := &huma.MediaType{}
	if b, ok := reflect.Zero(body).Interface().(interface{ example() string }); ok {
		media.Example = json.RawMessage(b.example())
	}
	return &huma.RequestBody{Content: map[string]*huma.MediaType{jsonType: media}}
}

// handleRaw is handle for an input whose RawBody may be empty; huma by itself wants at least one byte.
func handleRaw[I, O any](h func(context.Context, *I) (*O, error)) act {
	return act{register: func(api huma.API, op huma.Operation) {
		op.RequestBody = &huma.RequestBody{}
		huma.Register(api, op, h)
		op.RequestBody.Required = false
	}}
}

const (
	// smallBody bounds bodies that carry no payload.
	smallBody = 256 << 10
	// envelopeRoom is for what is around an envelope's payload, whose bytes count one to one.
	envelopeRoom = 64 << 10
	// batchBody bounds a batch, whatever 1,000 payloads may be each.
	batchBody = 32 << 20
)

// limit sets how many bytes a body may have. huma refuses a body that reaches its limit, so the limit is one more.
func limit(bytes int64) func(*huma.Operation) {
	return func(op *huma.Operation) { op.MaxBodyBytes = bytes + 1 }
}

// also documents that a route may answer with these statuses besides the usual ones.
func also(statuses ...int) func(*huma.Operation) {
	return func(op *huma.Operation) { op.Errors = append(op.Errors, statuses...) }
}

// both is one after the other.
func both(first, second func(*huma.Operation)) func(*huma.Operation) {
	return func(op *huma.Operation) {
		first(op)
		second(op)
	}
}

func (s *server) operation(tag string, rt route) huma.Operation {
	op := huma.Operation{
		Method: rt.method, Path: rt.path, DefaultStatus: rt.status, OperationID: rt.id, Summary: rt.summary,
		Tags: []string{tag}, MaxBodyBytes: smallBody + 1, BodyReadTimeout: s.d.Bodies.Total,
		Responses:   map[string]*huma.Response{}, // not nil: what huma fills in is known here, too
		Middlewares: huma.Middlewares{s.gate(rt)},
	}
	if !rt.may.public {
		op.Security = []map[string][]string{{securityScheme: {}}}
		op.Errors = append(op.Errors, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden,
			http.StatusUnprocessableEntity, http.StatusTooManyRequests)
		op.Description = rt.may.describe()
	}
	op.SkipValidateParams = rt.may.public // whoever probes us may add what he likes
	op.Errors = append(op.Errors, http.StatusServiceUnavailable)
	if strings.Contains(rt.path, "{") {
		op.Errors = append(op.Errors, http.StatusNotFound)
	}
	if rt.act.takesJSON {
		op.Errors = append(op.Errors, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if rt.more != nil {
		rt.more(&op)
	}
	return op
}

// describe says in the documentation what a key needs.
func (a access) describe() string {
	switch {
	case a.any:
		return "Needs a key, whatever its scopes."
	case a.own:
		return "Needs a key that is bound to this tenant, or one with the scope `admin`."
	case a.operator:
		return "Needs a key with the scope `" + string(a.scope) + "` that is bound to no tenant."
	}
	return "Needs a key with the scope `" + string(a.scope) + "`."
}

// headerValues is every value of a header; huma does not tell an empty one from none.
func headerValues(ctx huma.Context, name string) []string {
	r, _ := humago.Unwrap(ctx)
	return r.Header.Values(name)
}

// contentLength is what the request announces: -1 if it does not say.
func contentLength(ctx huma.Context) int64 {
	r, _ := humago.Unwrap(ctx)
	return r.ContentLength
}
