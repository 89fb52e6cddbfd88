package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// devState is what `postrider dev` remembers in its folder: where it is to be found, and what has to be the same the next
// time. It holds an admin key, so only its owner may read it.
type devState struct {
	URL          string `json:"url"` // of the HTTP API; "" while it is not running
	Key          string `json:"api_key"`
	ReceiverPort int    `json:"receiver_port"` // of the built-in receiver; 0: none yet
}

const devStateFile = "dev.json"

// readDevState gives the zero state if there is none.
func readDevState(dir string) (devState, error) {
	raw, err := os.ReadFile(filepath.Join(dir, devStateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return devState{}, nil
	}
	if err != nil {
		return devState{}, fmt.Errorf("read the state of `postrider dev`: %w", err)
	}
	var s devState
	if err := json.Unmarshal(raw, &s); err != nil {
		return devState{}, fmt.Errorf("read the state of `postrider dev`, %s: %w", filepath.Join(dir, devStateFile), err)
	}
	return s, nil
}

// write replaces the state as a whole, so that nobody reads half of it.
func (s devState) write(dir string) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	path := filepath.Join(dir, devStateFile)
	if err := os.WriteFile(path+".new", raw, 0o600); err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	return nil
}

// newDevKey makes an API key: 256 bits that nobody else has.
func newDevKey() string { return "prk_" + base64.RawURLEncoding.EncodeToString(random32()) }

// keyFile gives the file with the key that encrypts endpoints' secrets, made where it is missing.
func keyFile(dir string) (string, error) {
	path := filepath.Join(dir, "secrets.key")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return path, nil
	}
	if err != nil {
		return "", fmt.Errorf("make a key for secrets: %w", err)
	}
	_, err = fmt.Fprintln(file, base64.StdEncoding.EncodeToString(random32()))
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("make a key for secrets: %w", err), os.Remove(path))
	}
	return path, nil
}

func random32() []byte {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails: crypto/rand ends the process rather than give an error
	return raw
}
