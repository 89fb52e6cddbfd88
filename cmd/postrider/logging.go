package main

import (
	"io"
	"log" //nolint:depguard // http.Transport writes to the standard logger, see below
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/config"
	"github.com/postrider/postrider/internal/egress"
)

// settleTimes sets what zerolog keeps in globals.
var settleTimes = sync.OnceFunc(func() {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.TimestampFunc = func() time.Time { return time.Now().UTC() }
})

// newLogger makes the logger of a process. Logs go to the standard error: the standard output is for what was asked for.
func newLogger(w io.Writer, c config.Log) zerolog.Logger {
	settleTimes()
	if c.Format == config.LogConsole {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: !isTerminal(w)}
	}
	logger := zerolog.New(zerolog.SyncWriter(w)).Level(c.Level).With().Timestamp().Logger()
	// http.Transport has no logger of its own: it writes to the standard one, receivers' bytes included, which stay out.
	log.SetFlags(0)
	log.SetOutput(egress.LogFilter(lineLogger{logger, "http.transport"}))
	return logger
}
