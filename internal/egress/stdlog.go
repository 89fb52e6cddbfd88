package egress

import (
	"bytes"
	"io"
)

// provoked are what lines begin with that net/http prints to the standard logger because of something a receiver did. Some
// repeat up to 4 KiB of its bytes (a body behind a 204, a second answer behind the first); some are printed once for each
// frame of nine bytes, so that a receiver could fill the log's disk. The attempt says what is to be said.
var provoked = [][]byte{
	[]byte("Unsolicited response received on idle HTTP channel"),
	[]byte("Transport: unhandled response frame type"),
	[]byte("http2: Transport received unsolicited DATA frame"),
	[]byte("protocol error: received "),
	[]byte("http2: 1xx informational responses too large"),
}

// LogFilter is for log.SetOutput in main: it passes on what the standard logger writes, save the lines that receivers
// provoke. http.Transport has no logger of its own to set, so this is the only handle; the connection is closed by the
// transport, or its frame passed over, in any case.
func LogFilter(next io.Writer) io.Writer { return logFilter{next} }

type logFilter struct{ next io.Writer }

// Write gets one whole line from the log package.
func (f logFilter) Write(line []byte) (int, error) {
	for _, p := range provoked {
		if bytes.Contains(line, p) {
			return len(line), nil
		}
	}
	return f.next.Write(line)
}
