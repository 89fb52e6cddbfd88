package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/internal/duration"
)

// when reads a flag that is a time (RFC 3339) or a distance from now (30m, 2d), ahead or back, and gives it as the API
// takes it. "" stays "".
func (w world) when(cmd *cobra.Command, flag string, direction int) (string, error) {
	text := cmd.Flag(flag).Value.String()
	if text == "" {
		return "", nil
	}
	if d, err := duration.Parse(text); err == nil {
		return w.now().Add(time.Duration(direction) * d).UTC().Format(time.RFC3339Nano), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "", usagef(cmd, "--%s has to be a time like 2026-11-30T09:00:00Z or a span like 30m or 2d, not %s", flag, quote(text))
	}
	return t.UTC().Format(time.RFC3339Nano), nil
}

// The directions of when.
const (
	ago   = -1
	ahead = 1
)
