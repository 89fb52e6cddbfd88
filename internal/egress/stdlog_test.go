package egress

import (
	"bytes"
	"log"
	"testing"
)

// TestLogFilter covers the filter alone; that it stands between net/http and the log, TestMain sees to: a receiver of TestAnswers sends
// a body behind a 204, one of TestHTTP2Answers frames of no known type, and nothing may have been printed in the end.
func TestLogFilter(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	l := log.New(LogFilter(&b), "", log.LstdFlags)
	l.Printf("Unsolicited response received on idle HTTP channel starting with %q; err=%v", "<b>bytes", nil)
	l.Print("Transport: unhandled response frame type *http.http2UnknownFrame")
	l.Print("protocol error: received DATA after END_STREAM")
	l.Print("http2: Transport received unsolicited DATA frame; closing connection")
	l.Print("http2: 1xx informational responses too large")
	if b.Len() != 0 {
		t.Errorf("passed on: %s", b.String())
	}
	l.Print("something else")
	if !bytes.HasSuffix(b.Bytes(), []byte("something else\n")) {
		t.Errorf("kept back: %q", b.String())
	}
}
