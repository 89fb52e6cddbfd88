package dispatcher

import (
	"io"
	"net/http"
)

// readExcerpt reads the first limit bytes of an answer's body, as they are, and closes it. It never holds more than one
// byte over the limit, whatever length the answer claims, and expands nothing. A body that ended within the limit leaves
// its connection to the next request; any other gives the connection up.
//
// truncated says that it is not the whole: there was more, or the body was cut off, slow or broken. The request's context,
// and so the attempt's deadline, bounds the reading.
func readExcerpt(resp *http.Response, limit int64) (body []byte, truncated bool) {
	if resp.Body == http.NoBody { // the usual answer; reading nothing would take a buffer all the same
		_ = resp.Body.Close()
		return nil, false
	}
	defer func() { _ = resp.Body.Close() }()                    // the excerpt is in hand; Close can only say that the rest is lost
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1)) // one more, to tell "all" from "more"
	if int64(len(body)) > limit {
		return body[:limit], true
	}
	return body, err != nil
}
