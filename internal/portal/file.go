package portal

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/postrider/postrider/internal/web"
)

// file is something that pages load and that is made at the start. Its address has its hash, so that a change is seen at once.
type file struct {
	url, mediaType string
	content        []byte
}

func newFile(path, mediaType string, content []byte) file {
	sum := sha256.Sum256(content)
	return file{url: path + "?v=" + hex.EncodeToString(sum[:6]), mediaType: mediaType, content: content}
}

// show answers with the file. A logo is the operator's own and may be an SVG, which is a page when it is opened by itself: the
// policy then leaves it without scripts, without an origin and without anything to load.
func (f file) show(v *web.Visit) error {
	if f.content == nil {
		return noPage()
	}
	h := v.W.Header()
	h.Set("Content-Type", f.mediaType)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cache-Control", "public, max-age=86400")
	_, _ = v.W.Write(f.content) // whoever asked has gone
	return nil
}
