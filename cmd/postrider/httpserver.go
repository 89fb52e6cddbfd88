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
	ticks "golang.org/x/time/rate"
)

// serverLimits are what a server allows its clients. What a request's body may take, the API says (api.BodyPace).
type serverLimits struct {
	header time.Duration // from the start of a request, or of the connection, to the end of the headers
	// read bounds a whole request, for handlers that set no time for its body.
	read time.Duration
	// write bounds an answer to a client that takes it slowly or not at all, which would otherwise last for ever. It runs
	// from the end of the request's headers, so it has to leave time for the body too.
	write       time.Duration
	idle        time.Duration // between two requests of a connection
	headerBytes int           // of the request line and the headers, some 4 KiB more in truth
	connections int           // open at once; 0: as many as come
}

// usualLimits: the largest answer is the largest payload that can be configured, 256 MiB, which needs 0.7 MB/s.
var usualLimits = serverLimits{
	header: 10 * time.Second, read: 5 * time.Minute, write: 7 * time.Minute, idle: 2 * time.Minute, headerBytes: 64 << 10,
}

// httpDrain is how long requests that are being answered may go on when the process stops.
const httpDrain = 10 * time.Second

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
	return usualLimits.server(l, h, logger)
}

// server makes one with these limits.
func (lim serverLimits) server(l net.Listener, h http.Handler, logger zerolog.Logger) *server {
	s := &server{l, &http.Server{
		Handler: h, ReadHeaderTimeout: lim.header, ReadTimeout: lim.read, WriteTimeout: lim.write, IdleTimeout: lim.idle,
		MaxHeaderBytes: lim.headerBytes, DisableGeneralOptionsHandler: true, ErrorLog: log.New(lineLogger{logger, "http.server"}, "", 0),
	}}
	if lim.connections > 0 {
		quiet := ticks.NewLimiter(ticks.Every(10*time.Second), 1)
		c := newCrowd(l, lim.connections, func() {
			if quiet.Allow() {
				logger.Warn().Int("connections", lim.connections).Msg("http.crowded")
			}
		})
		s.listener, s.http.ConnState = c, c.follow
	}
	return s
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
