package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed assets
var assetFiles embed.FS

// asset is a file that browsers load. Its address has its hash, so what is under an address never changes.
type asset struct {
	url, mediaType string
	plain, zipped  []byte
}

// assets is all of them, by their names: read and zipped when the first page is made, which most commands never do.
var assets = sync.OnceValue(loadAssets)

func loadAssets() map[string]asset {
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic("web: " + err.Error()) // they are part of the program
	}
	all := make(map[string]asset, len(entries))
	for _, e := range entries {
		content, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			panic("web: " + err.Error())
		}
		all[e.Name()] = newAsset(e.Name(), content)
	}
	return all
}

func newAsset(name string, content []byte) asset {
	sum := sha256.Sum256(content)
	a := asset{url: "/assets/" + hex.EncodeToString(sum[:6]) + "/" + name, mediaType: mime.TypeByExtension(path.Ext(name)), plain: content}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(content); err == nil && z.Close() == nil && zipped.Len() < len(content) {
		a.zipped = zipped.Bytes()
	}
	return a
}

// Asset gives the address of one of the files that browsers load.
func Asset(name string) string {
	a, ok := assets()[name]
	if !ok {
		panic("web: there is no asset " + name) // a template's mistake; its first rendering shows it
	}
	return a.url
}

// Assets serves the files that pages of both sites load, at "GET /assets/{hash}/{name}". They are no secret.
func Assets() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		a, ok := assets()[r.PathValue("name")]
		if !ok || a.url != r.URL.Path {
			h.Set("Cache-Control", "no-store") // of another version: the page that asked for it is old
			http.NotFound(w, r)
			return
		}
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		a.serve(w, r)
	})
}

func (a asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.mediaType)
	h.Set("Vary", "Accept-Encoding")
	body := a.plain
	if a.zipped != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = a.zipped
	}
	_, _ = w.Write(body) // whoever asked has gone
}
