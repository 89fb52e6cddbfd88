package main

import (
	"context"
	"errors"
	"fmt"
	"log" //nolint:depguard // http.Server takes no other logger
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

const (
	headerTimeout = 10 * time.Second
	// readTimeout bounds a whole request. The largest payload that can be configured (256 MiB) needs 1 MB/s for it.
	readTimeout = 5 * time.Minute
	// writeTimeout bounds an answer to a client that takes it slowly or not at all, which would otherwise last for ever. It
	// runs from the end of the request's headers, so it has to leave time for the body too. The largest answer is the
	// largest payload, 256 MiB: it needs 0.7 MB/s.
	writeTimeout   = readTimeout + 2*time.Minute
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	// httpDrain is how long requests that are being answered may go on when the process stops.
	httpDrain = 10 * time.Second
)

// server is an HTTP server whose socket is open already: what is wrong with its address shows before anything starts,
// and the port is known where any free one was asked for.
type server struct {
	listener net.Listener
	http     *http.Server
}

func listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("open %s for HTTP: %w", addr, err)
	}
	return l, nil
}

func newServer(l net.Listener, h http.Handler, logger zerolog.Logger) *server {
	return &server{l, &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: log.New(lineLogger{logger, "http.server"}, "", 0),
	}}
}

// part runs the server until its context ends, then lets it finish what it is answering. message is the log line that
// says where it listens.
func (s *server) part(name, message string, logger zerolog.Logger) part {
	return part{name: name, stop: httpDrain + time.Second, run: func(ctx context.Context) error {
		served := make(chan error, 1)
		go func() { served <- s.http.Serve(s.listener) }()
		logger.Info().Str("addr", s.listener.Addr().String()).Msg(message)
		select {
		case err := <-served:
			return err
		case <-ctx.Done():
		}
		draining, cancel := context.WithTimeout(context.Background(), httpDrain)
		defer cancel()
		err := s.http.Shutdown(draining)
		if errors.Is(err, context.DeadlineExceeded) {
			logger.Warn().Str("after", httpDrain.String()).Msg("requests cut off")
			err = s.http.Close()
		}
		if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
			err = errors.Join(err, serveErr)
		}
		return err
	}}
}

// lineLogger brings what net/http writes to a standard logger into ours.
type lineLogger struct {
	log     zerolog.Logger
	message string
}

func (l lineLogger) Write(line []byte) (int, error) {
	l.log.Warn().Str("error", printable(strings.TrimSpace(string(line)))).Msg(l.message)
	return len(line), nil
}
