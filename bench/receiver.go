package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// serveReceiver is the receiver's process: it says where it listens, answers 200 to everything and ends with its parent,
// whose closing of our standard input it waits for.
//
//	POST /…       counts, and notes when a body that begins with a number was seen: /seen?n=<number> tells
//	GET /count    how many came
//	GET /seen?n=  when that one came, in nanoseconds since 1970
func serveReceiver() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: receiver:", err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	var count atomic.Int64
	var last atomic.Int64 // the moment of the last request's first byte, as far as a handler sees it
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(rw http.ResponseWriter, r *http.Request) {
		last.Store(time.Now().UnixNano())
		_, _ = io.Copy(io.Discard, r.Body)
		count.Add(1)
		rw.WriteHeader(http.StatusOK)
	})
	mux.HandleFunc("GET /count", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, count.Load())
	})
	mux.HandleFunc("GET /last", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, last.Load())
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// receiver is the process from the outside.
type receiver struct {
	url   string
	cmd   *exec.Cmd
	stdin io.Closer
}

func startReceiver(ctx context.Context) (*receiver, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-receiver") //nolint:gosec // it is this program
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the receiver does not say where it listens: %w", err)
	}
	return &receiver{url: "http://" + strings.TrimSpace(line), cmd: cmd, stdin: in}, nil
}

func (r *receiver) stop() {
	_ = r.stdin.Close()
	_ = r.cmd.Wait()
}

// number asks the receiver for one of its numbers.
func (r *receiver) number(ctx context.Context, path string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(b), 10, 64)
}

// await waits until the receiver has had n requests in all.
func (r *receiver) await(ctx context.Context, n int64) error {
	for {
		got, err := r.number(ctx, "/count")
		if err != nil || got >= n {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}
