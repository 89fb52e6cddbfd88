package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

const securityScheme = "api-key"

// setUpHuma sets what huma keeps in variables of its package. Nothing else in Postrider uses huma.
var setUpHuma = sync.OnceFunc(func() {
	huma.NewErrorWithContext = humaProblem
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return humaProblem(nil, status, message, errs...)
	}
	huma.ValidateStrictCasing = true // {"Url": …} is an unknown field, and not the url
	huma.DefaultArrayNullable = false
})

func newHuma(mux *http.ServeMux, version string) huma.API {
	setUpHuma()
	return humago.New(mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Postrider", Version: version, Description: introduction,
				License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", schemaName),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					securityScheme: {Type: "http", Scheme: "bearer", Description: "An API key: Authorization: Bearer <key>"},
				},
			},
		},
		Formats:                      map[string]huma.Format{"application/json": strictJSON, "json": strictJSON},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	})
}

const introduction = `Postrider delivers webhooks: an event is enqueued for a tenant and posted, signed, to each of the
tenant's endpoints that wants it.

Times are RFC 3339 in UTC with milliseconds, durations such as ` + "`15s`, `5m` or `1d`" + `. A tenant, an endpoint and an
event may carry a uid of yours, which stands in paths wherever the id does. Errors are problems of RFC 9457; their type
tells programs which kind it is. Lists come newest first and stay stable while new things are made.`

// schemaName drops what only our own code needs to tell apart.
func schemaName(t reflect.Type, hint string) string {
	return strings.TrimSuffix(huma.DefaultSchemaNamer(t, hint), "View")
}

// description serves the API's own description. It is put together at the first call, when all routes are there.
func (s *server) description() http.Handler {
	spec := sync.OnceValues(func() ([]byte, error) { return json.Marshal(s.api.OpenAPI()) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := spec()
		if err != nil {
			writeProblem(w, r, problemOf(err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body) // whoever asked has gone
	})
}

// rawBody documents the operation whose body is a payload: any bytes, none as well.
func rawBody(most int64) func(*huma.Operation) {
	return func(op *huma.Operation) {
		limit(most)(op)
		op.Description = "The path ends in the event's type, such as `order.paid`; it is called {evt} because other calls have the " +
			"event's id there. The body is the payload, byte for byte, and its Content-Type goes along.\n\n" + op.Description
		op.Errors = append(op.Errors, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
}

// anyContent documents an answer that is bytes of any content type.
func anyContent(op *huma.Operation) {
	op.Responses = map[string]*huma.Response{"200": {
		Description: "The payload, byte for byte",
		Content:     map[string]*huma.MediaType{"*/*": {}},
	}}
}
