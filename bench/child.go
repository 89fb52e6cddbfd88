package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// child is a process of this program in another role. It ends when its standard input does, so also when we are killed.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startChild(ctx context.Context, role string, more ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{"-" + roleFlag, role}, more...)...) //nolint:gosec // it is this program
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
	return &child{cmd: cmd, in: in, out: bufio.NewReader(out)}, nil
}

// line waits for the next thing that it says.
func (c *child) line() (string, error) {
	text, err := c.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the process of %s says nothing: %w", strings.Join(c.cmd.Args[1:], " "), err)
	}
	return strings.TrimSpace(text), nil
}

func (c *child) tell(text string) error {
	_, err := io.WriteString(c.in, text+"\n")
	return err
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) stop() {
	_ = c.in.Close()
	_ = c.cmd.Wait()
}
