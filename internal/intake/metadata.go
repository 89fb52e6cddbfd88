package intake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	maxMetadata = 16 << 10 // bytes, as JSON without blanks
	maxDepth    = 32       // the database's parser has a limit of its own, far beyond
)

// encodeMetadata spells metadata as JSON with sorted names, "" for none. It refuses what a jsonb cannot hold: the
// character NUL, and numbers beyond a double's range (jsonb's own range is wider, but ends too).
func encodeMetadata(metadata map[string]any) (string, error) {
	if len(metadata) == 0 {
		return "", nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // nobody reads it as HTML, and each escape would count for six bytes
	if err := enc.Encode(metadata); err != nil {
		return "", errors.New("is no object of JSON values")
	}
	text := strings.TrimSuffix(b.String(), "\n")
	if len(text) > maxMetadata {
		return "", fmt.Errorf("has %d bytes as JSON; %d are allowed", len(text), maxMetadata)
	}
	plain, err := decodeMetadata([]byte(text))
	if err != nil {
		return "", err
	}
	if err := storable(plain, maxDepth); err != nil {
		return "", err
	}
	return text, nil
}

// decodeMetadata keeps numbers as they are spelled: a float64 would lose the digits of large ones.
func decodeMetadata(text []byte) (map[string]any, error) {
	if text == nil {
		return map[string]any{}, nil
	}
	metadata := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&metadata); err != nil {
		return nil, fmt.Errorf("decode metadata: %w", err)
	}
	return metadata, nil
}

func storable(value any, depth int) error {
	if depth < 0 {
		return fmt.Errorf("is nested more than %d deep", maxDepth)
	}
	switch v := value.(type) {
	case string:
		if strings.ContainsRune(v, 0) {
			return errors.New("holds the character NUL")
		}
	case json.Number:
		f, err := strconv.ParseFloat(v.String(), 64)
		if err != nil || f == 0 && strings.ContainsAny(v.String(), "eE") {
			return errors.New("holds a number beyond the range of a double")
		}
	case []any:
		for _, element := range v {
			if err := storable(element, depth-1); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, member := range v {
			if err := errors.Join(storable(name, depth), storable(member, depth-1)); err != nil {
				return err
			}
		}
	}
	return nil
}
