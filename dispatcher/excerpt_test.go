package dispatcher

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// watched is a body that knows how far it was read and whether it was closed.
type watched struct {
	io.Reader
	read   int
	closed bool
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.read += n
	return n, err
}

func (w *watched) Close() error {
	w.closed = true
	return nil
}

func TestReadExcerpt(t *testing.T) {
	t.Parallel()
	cut := errors.New("cut")
	failing := func(s string) io.Reader { return io.MultiReader(strings.NewReader(s), errorReader{cut}) }
	for _, c := range []struct {
		body      io.Reader
		limit     int64
		want      string
		truncated bool
	}{
		{strings.NewReader(""), 4, "", false},
		{strings.NewReader("abc"), 4, "abc", false},
		{strings.NewReader("abcd"), 4, "abcd", false},
		{strings.NewReader("abcde"), 4, "abcd", true},
		{strings.NewReader("\x00\xff\r\n"), 4, "\x00\xff\r\n", false},
		{strings.NewReader("a"), 0, "", true},
		{strings.NewReader(""), 0, "", false},
		{failing("ab"), 4, "ab", true},
		{failing("abcde"), 4, "abcd", true},
	} {
		body := &watched{Reader: c.body}
		got, truncated := readExcerpt(&http.Response{Body: body}, c.limit)
		if string(got) != c.want || truncated != c.truncated {
			t.Errorf("%q to %d: %q %v", c.want, c.limit, got, truncated)
		}
		if !body.closed || int64(body.read) > c.limit+1 {
			t.Errorf("%q to %d: read %d, closed %v", c.want, c.limit, body.read, body.closed)
		}
	}
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }
