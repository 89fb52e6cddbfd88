package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// DefaultFile is read, if it is there, when no file is named.
const DefaultFile = "postrider.yaml"

// fileLimit bounds what is read as a configuration, in bytes, should the path name something else.
const fileLimit = 1 << 20

// setting is a value as it was written in one layer.
type setting struct {
	items []string
	place string
}

// fileReader walks a YAML file down to the keys. It works on YAML's nodes and not on decoded values, for two reasons: a
// fault can name its line, and a text stays as it was written (decoded, an admin_key of digits would come back as a
// rounded number).
type fileReader struct {
	path     string
	settings map[string]setting
	lines    map[string]int // where a key or section was first seen
	faults   faults
}

// readFile reads the settings of a file. One that is missing is a fault only if it was asked for by name.
func readFile(path string, named bool) (map[string]setting, faults) {
	text, err := readLimited(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return nil, nil
	case err != nil:
		return nil, faults{{Key: path, Detail: "cannot be read: " + reason(err)}}
	}
	return parseFile(path, text)
}

// parseFile takes the settings out of the text of a file.
func parseFile(path string, text []byte) (map[string]setting, faults) {
	root, err := parseYAML(text)
	if err != nil {
		return nil, faults{{Key: path, Detail: err.Error()}}
	}
	r := fileReader{path: path, settings: map[string]setting{}, lines: map[string]int{}}
	if root != nil {
		r.section("", root)
	}
	return r.settings, r.faults
}

// readLimited reads a small file.
func readLimited(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, fileLimit+1))
	if err == nil && len(text) > fileLimit {
		err = errors.New("larger than " + formatSize(fileLimit))
	}
	return text, err
}

// reason leaves the path out of err: the fault names it already.
func reason(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err
	}
	return err.Error()
}

// parseYAML gives the one mapping of the text, nil if the text holds nothing.
func parseYAML(text []byte) (*yaml.Node, error) {
	var document, more yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return nil, nil //nolint:nilnil // an empty file is a good one
	}
	if err == nil {
		if err = decoder.Decode(&more); err == nil {
			return nil, errors.New("holds several YAML documents (---), want one")
		}
	}
	switch {
	case errors.Is(err, io.EOF):
	case strings.Contains(err.Error(), "unknown anchor"):
		// Not repeated, for it might be a secret that begins with an asterisk.
		return nil, errors.New("has an alias (*name) without its anchor; a text that begins with * goes in quotes")
	default:
		return nil, fmt.Errorf("is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	root := resolve(document.Content[0])
	switch {
	case isNull(root):
		return nil, nil //nolint:nilnil // a file of comments
	case root.Kind != yaml.MappingNode:
		return nil, errors.New("holds no keys, want lines such as http.addr: 127.0.0.1:8080")
	}
	return root, nil
}

// plainName is what a name has to look like to be repeated: what does not may be a value in the wrong place.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,80}$`)

// section takes the keys of one mapping. prefix is "" or ends in a dot. Keys with dots in them are taken too, so that the
// file may be flat.
func (r *fileReader) section(prefix string, mapping *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		label, value := mapping.Content[i], resolve(mapping.Content[i+1])
		name := prefix + label.Value
		if label.Kind != yaml.ScalarNode || !plainName.MatchString(name) {
			r.faults = append(r.faults, Fault{Key: r.path, Detail: "holds something that is no key", From: r.place(label.Line)})
			continue
		}
		if first, again := r.lines[name]; again {
			r.fault(name, label.Line, "is there twice, first in line %d", first)
			continue
		}
		r.lines[name] = label.Line
		if k, ok := lookup(name); ok {
			r.leaf(k, label.Line, value)
			continue
		}
		switch {
		case !isSection(name):
			r.fault(name, label.Line, "%s", unknown("key", name, names()))
		case value.Kind == yaml.MappingNode:
			r.section(name+".", value)
		case !isNull(value):
			r.fault(name, label.Line, "is a section, want keys below it")
		}
	}
}

// leaf takes the value of a key. A key without a value (null) is as if it were not there.
func (r *fileReader) leaf(k key, line int, value *yaml.Node) {
	switch {
	case isNull(value):
	case isText(value):
		r.settings[k.name] = setting{k.split(value.Value), r.place(line)}
	case value.Kind == yaml.SequenceNode && k.list:
		items := make([]string, len(value.Content))
		for i, item := range value.Content {
			item = resolve(item)
			if !isText(item) {
				r.fault(k.name, item.Line, "item %d is not plain text, want %s", i+1, k.arg)
				return
			}
			items[i] = item.Value
		}
		r.settings[k.name] = setting{items, r.place(line)}
	case value.Kind == yaml.SequenceNode:
		r.fault(k.name, line, "is a list, want one %s", k.arg)
	default:
		r.fault(k.name, line, "is not plain text, want %s", k.arg)
	}
}

func (r *fileReader) place(line int) string { return fmt.Sprintf("%s:%d", r.path, line) }

func (r *fileReader) fault(name string, line int, format string, args ...any) {
	r.faults = append(r.faults, Fault{Key: name, Detail: fmt.Sprintf(format, args...), From: r.place(line)})
}

// resolve follows an alias to its anchor.
func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" }

// isText takes YAML's own plain types; another tag (!env, !!binary) asks for something that is not done here.
func isText(node *yaml.Node) bool {
	if node.Kind != yaml.ScalarNode {
		return false
	}
	switch node.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
		return true
	}
	return false
}
