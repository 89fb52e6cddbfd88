package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// stopsWithin is how long a stop may take: the attempts on their way, which all end by their timeout, and some slack.
const stopsWithin = time.Minute

// timeout of an attempt, and the delays of the schedule: short, so that what fails is done with while we look on.
const (
	timeout  = "3s"
	schedule = "1s,2s,3s,5s,5s"
	maxConns = 16
)

// server is the program, in a process of its own.
type server struct {
	base, key string
	cmd       *exec.Cmd
	log       *os.File
	ended     chan error
}

// startServer starts the program on a free port and waits until it is ready.
func startServer(ctx context.Context, o options) (*server, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(o.log)
	if err != nil {
		return nil, err
	}
	sealing := make([]byte, 32)
	_, _ = rand.Read(sealing) // never fails
	s := &server{base: "http://" + addr, key: rand.Text() + rand.Text(), log: log, ended: make(chan error, 1)}
	s.cmd = exec.Command(o.program, "serve") //nolint:gosec // it is what is to be tried
	s.cmd.Stderr = log
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "POSTRIDER_") {
			s.cmd.Env = append(s.cmd.Env, pair)
		}
	}
	s.cmd.Env = append(s.cmd.Env,
		"POSTRIDER_DATABASE_URL="+o.database, "POSTRIDER_DATABASE_MIGRATE_ON_START=true", "POSTRIDER_HTTP_ADDR="+addr,
		fmt.Sprintf("POSTRIDER_DATABASE_MAX_CONNS=%d", maxConns),
		"POSTRIDER_SECRETS_KEYS="+base64.StdEncoding.EncodeToString(sealing), "POSTRIDER_BOOTSTRAP_ADMIN_KEY="+s.key,
		"POSTRIDER_DELIVERY_ALLOW_HTTP=true", "POSTRIDER_DELIVERY_ALLOW_NETWORKS=127.0.0.0/8",
		"POSTRIDER_DELIVERY_TIMEOUT="+timeout, "POSTRIDER_DELIVERY_RETRY_SCHEDULE="+schedule, "POSTRIDER_LOG_LEVEL=warn",
	)
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() { s.ended <- s.cmd.Wait() }()
	if err := s.awaitReady(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; its log is %s", err, o.log), s.stop())
	}
	return s, nil
}

// freeAddr gives an address that was free a moment ago. Another process may take it before the program does; it says so
// then and ends.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (s *server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-s.ended:
			s.ended <- err
			return fmt.Errorf("the program ended: %w", errors.Join(err, errors.New("it was not ready yet")))
		case <-ctx.Done():
			return errors.New("the program is not ready after 30 s")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop ends the program as an operator does, and it is an error if it does not end well.
func (s *server) stop() error {
	defer func() { _ = s.log.Close() }()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-s.ended:
		if err != nil {
			return fmt.Errorf("the program did not end well: %w", err)
		}
		return nil
	case <-time.After(stopsWithin):
		_ = s.cmd.Process.Kill()
		err := <-s.ended
		return fmt.Errorf("the program had not ended %s after it was told to: %w", stopsWithin, err)
	}
}
