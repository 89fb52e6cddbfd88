package egress

import (
	"bytes"
	"log"
	"testing"
)

// TestLogFilter covers the filter alone; that it stands between net/http and the log, TestMain sees to: a receiver of TestAnswers sends
// a body behind a 204, and nothing may have been printed in the end.
func TestLogFilter(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	l := log.New(LogFilter(&b), "", log.LstdFlags)
	l.Printf("Unsolicited response received on idle HTTP channel starting with %q; err=%v", "<b>bytes", nil)
	if b.Len() != 0 {
		t.Errorf("passed on: %s", b.String())
	}
	l.Print("something else")
	if !bytes.HasSuffix(b.Bytes(), []byte("something else\n")) {
		t.Errorf("kept back: %q", b.String())
	}
}
