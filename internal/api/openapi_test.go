package api_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
)

// described holds the validator made of /openapi.json. All worlds have the same description.
var described struct {
	sync.Mutex
	validator validator.Validator
}

// checkAgainstDescription fails the test if the answer is not as /openapi.json has it. The validator is not made for
// concurrent use.
func (w *world) checkAgainstDescription(req *http.Request, res *http.Response, body []byte) {
	w.t.Helper()
	if !strings.HasPrefix(req.URL.Path, "/v1/") || res.StatusCode == http.StatusMethodNotAllowed ||
		bytes.Contains(body, []byte("there is nothing at this path")) {
		return // no operation of the description
	}
	described.Lock()
	defer described.Unlock()
	if described.validator == nil {
		described.validator = w.newValidator()
	}
	copied := *res
	copied.Body = io.NopCloser(bytes.NewReader(body))
	if ok, faults := described.validator.ValidateHttpResponse(req, &copied); !ok {
		for _, f := range faults {
			w.t.Errorf("%s %s answers %d otherwise than described: %s: %s %v\n%s", req.Method, req.URL.Path,
				res.StatusCode, f.Message, f.Reason, f.SchemaValidationErrors, body)
		}
	}
}

// description gives /openapi.json.
func (w *world) description() []byte {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.http.URL+"/openapi.json", http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	res, err := w.http.Client().Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	spec, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return spec
}

func (w *world) newValidator() validator.Validator {
	w.t.Helper()
	doc, err := libopenapi.NewDocument(w.description())
	if err != nil {
		w.t.Fatalf("/openapi.json cannot be read: %v", err)
	}
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		w.t.Fatalf("/openapi.json cannot be used: %v", errs)
	}
	if ok, faults := v.ValidateDocument(); !ok {
		for _, f := range faults {
			w.t.Errorf("/openapi.json is not OpenAPI 3.1: %s: %s %v", f.Message, f.Reason, f.SchemaValidationErrors)
		}
	}
	return v
}

func TestDescription(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.newValidator().Release()
}

// TestEachErrorIsShownByItsOwnSample reads the description as the reference does.
func TestEachErrorIsShownByItsOwnSample(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var spec struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Content map[string]struct {
					Example *struct {
						Status int
						Errors []any
					}
				}
			}
		}
	}
	if err := json.Unmarshal(w.description(), &spec); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for path, operations := range spec.Paths {
		for method, op := range operations {
			for status, answer := range op.Responses {
				problem, isProblem := answer.Content["application/problem+json"]
				if !isProblem {
					continue
				}
				seen++
				sample := problem.Example
				if sample == nil || strconv.Itoa(sample.Status) != status || (len(sample.Errors) > 0) != (status == "422") {
					t.Errorf("%s %s shows for %s the sample %+v", method, path, status, sample)
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d answers are problems", seen)
	}
}
