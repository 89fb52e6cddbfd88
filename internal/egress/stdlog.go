package egress

import (
	"bytes"
	"io"
)

// unsolicited begins the line net/http prints to the standard logger, with up to 4 KiB of what it quotes, when a receiver
// sends bytes nobody asked for: a body behind a 204, a second answer behind the first.
var unsolicited = []byte("Unsolicited response received on idle HTTP channel")

// LogFilter is for log.SetOutput in main: it passes on what the standard logger writes, save the lines in which net/http
// repeats a receiver's bytes. http.Transport has no logger of its own to set, so this is the only handle; the connection is
// closed by the transport in any case.
func LogFilter(next io.Writer) io.Writer { return logFilter{next} }

type logFilter struct{ next io.Writer }

// Write gets one whole line from the log package.
func (f logFilter) Write(line []byte) (int, error) {
	if bytes.Contains(line, unsolicited) {
		return len(line), nil
	}
	return f.next.Write(line)
}
