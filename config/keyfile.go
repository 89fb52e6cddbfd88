package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// loadKeyFile fills Secrets.Keys from Secrets.KeyFile. What goes wrong is kept for Validate: a command that does without
// the keys, such as migrate, may well run where their file is out of its reach. If the keys were given too, the file is
// left alone and Validate says that it is one or the other.
func (c *Config) loadKeyFile() {
	path := c.Secrets.KeyFile
	if path == "" || len(c.Secrets.Keys) > 0 {
		return
	}
	keys, err := readKeyFile(path)
	if err != nil {
		fault := c.fault("secrets.key_file", "%s %v", quote(path), err)
		c.keyFileFault = &fault
		return
	}
	c.Secrets.Keys, c.keysFromFile = keys, true
	c.origins["secrets.keys"] = origin{c.Source("secrets.key_file"), path}
}

// readKeyFile reads one key a line; blank lines and lines that begin with # do not count. Whoever can read the file can
// read every endpoint's secret, so one that others on the machine may open is refused, as ssh and PostgreSQL do. The
// group may read it: that is how Kubernetes hands a secret to a process that is not root (fsGroup, defaultMode 0440).
func readKeyFile(path string) ([][32]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %s", reason(err))
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %s", reason(err))
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	case info.Mode().Perm()&0o007 != 0:
		return nil, fmt.Errorf("is open to all users of the machine (mode %04o), want 0600 or 0640", info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(file, fileLimit))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %s", reason(err))
	}
	return parseKeyLines(string(text))
}

func parseKeyLines(text string) ([][32]byte, error) {
	var keys [][32]byte
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := parseSecretKey(line)
		if err != nil {
			return nil, fmt.Errorf("line %d %w", number, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("holds no key, want one a line, base64 of exactly 32 bytes each (openssl rand -base64 32)")
	}
	return keys, nil
}
