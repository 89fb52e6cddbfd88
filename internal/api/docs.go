package api

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/postrider/postrider/internal/fault"
)

// The reference at /docs is Swagger UI, served from here: docs/README.md says which and why.
//
//go:embed docs/index.html docs/docs.js docs/docs.css docs/swagger-ui-bundle.js.gz docs/swagger-ui.css.gz
var docsFiles embed.FS

// docsPolicy lets the page have its own scripts, styles and this API, and nothing else.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

var docsTypes = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}

func docsPage() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, err := docsFiles.ReadFile("docs/index.html")
		if err != nil {
			writeProblem(w, r, problemOf(err))
			return
		}
		w.Header().Set("Content-Security-Policy", docsPolicy)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = w.Write(page) // whoever asked has gone
	})
}

// docsAsset serves what the page is made of. The large files lie here compressed, and are sent so to whoever takes it.
func docsAsset() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("asset")
		contentType, known := docsTypes[path.Ext(name)]
		body, err := docsFiles.ReadFile("docs/" + name)
		packed := false
		if err != nil {
			body, err = docsFiles.ReadFile("docs/" + name + ".gz")
			packed = true
		}
		if !known || err != nil {
			writeProblem(w, r, newProblem(fault.NotFound, "there is nothing at this path"))
			return
		}
		h := w.Header()
		h.Set("Content-Type", contentType)
		h.Set("Cache-Control", "public, max-age=3600")
		if packed {
			h.Set("Vary", "Accept-Encoding")
			if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
				h.Set("Content-Encoding", "gzip")
			} else if body, err = unpack(body); err != nil {
				writeProblem(w, r, problemOf(err))
				return
			}
		}
		h.Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body) // whoever asked has gone
	})
}

func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
