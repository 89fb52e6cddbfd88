//go:build !linux

package pgcluster

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// endWithParent does nothing here: only Linux tells a child that its parent is gone. endLeftover makes up for it.
func endWithParent(*syscall.SysProcAttr) {}

// runsIn reports whether the process is a server of that data folder: we name it on its command line.
func runsIn(pid int, data string) bool {
	out, err := exec.Command("ps", "-o", "stat=,command=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(string(out), "Z") && strings.Contains(string(out), "-D "+data)
}

func memoryDir() string { return "" }
