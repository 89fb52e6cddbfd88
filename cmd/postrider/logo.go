package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// logo is a picture as portals show it; the zero logo: there is none.
type logo struct {
	contentType string
	body        []byte
}

const maxLogo = 256 << 10

// readLogo reads portal.logo_file. That what it holds is what its name says is for the operator's sake: an SVG's scripts are kept
// from running by how it is shown.
func readLogo(path string) (logo, error) {
	if path == "" {
		return logo{}, nil
	}
	l, err := openLogo(path)
	if err != nil {
		return logo{}, fmt.Errorf("use portal.logo_file: %w", err)
	}
	return l, nil
}

func openLogo(path string) (logo, error) {
	file, err := os.Open(path)
	if err != nil {
		return logo{}, err //nolint:wrapcheck // it names the file and what went wrong
	}
	defer func() { _ = file.Close() }()
	body, err := io.ReadAll(io.LimitReader(file, maxLogo+1))
	switch {
	case err != nil:
		return logo{}, err //nolint:wrapcheck // it names the file and what went wrong
	case len(body) > maxLogo:
		return logo{}, errors.New(path + " is larger than 256KiB")
	case bytes.HasPrefix(body, []byte("\x89PNG\r\n\x1a\n")) && hasExtension(path, ".png"):
		return logo{"image/png", body}, nil
	case utf8.Valid(body) && bytes.Contains(body, []byte("<svg")) && hasExtension(path, ".svg"):
		return logo{"image/svg+xml", body}, nil
	}
	return logo{}, errors.New(path + " does not hold what its name says, want an SVG or a PNG")
}

func hasExtension(path, extension string) bool {
	return strings.HasSuffix(strings.ToLower(path), extension)
}
