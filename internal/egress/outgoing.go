package egress

import (
	"io"
	"net/http"

	"github.com/postrider/postrider/internal/fault"
)

// outgoing makes out the copy of req that the transport may have: framed with a Content-Length whatever its size, without
// GetBody (see flight), and without Expect, whose wait would make one attempt two exchanges. req itself is left as it is.
func outgoing(out, req *http.Request) error {
	*out = *req
	out.GetBody = nil
	out.TransferEncoding = nil
	if _, ok := req.Header["Expect"]; ok {
		out.Header = req.Header.Clone()
		out.Header.Del("Expect")
	}
	if out.Body != nil && out.Body != http.NoBody && out.ContentLength <= 0 {
		// 0 with a body means "unknown" to net/http, which would go chunked. Only an empty body is known to be 0 long.
		var one [1]byte
		if n, err := io.ReadFull(out.Body, one[:]); n > 0 || err != io.EOF {
			return fault.New(fault.Internal, "a request whose body has no known length")
		}
		_ = out.Body.Close() // empty, and read to its end
		out.Body, out.ContentLength = http.NoBody, 0
	}
	if out.Body == nil {
		out.Body = http.NoBody
	}
	if out.Body == http.NoBody && out.ContentLength != 0 {
		return fault.New(fault.Internal, "a request with a length and no body")
	}
	return nil
}

// renewBody gives out its body afresh after a try that sent nothing, and reports whether it could.
func renewBody(out, req *http.Request) bool {
	if out.Body == http.NoBody {
		return true
	}
	if req.GetBody == nil {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	out.Body = body
	return true
}
