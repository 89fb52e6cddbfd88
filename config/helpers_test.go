package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// The keys of the tests: base64 of 32 equal bytes.
const (
	keyA = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="
	keyB = "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI="
	keyC = "Q0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0M="
)

// writeFile writes a file into a folder of the test and gives its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// flagSet parses the arguments as a command would.
func flagSet(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags
}

// loadText loads a file of this text and nothing else.
func loadText(t *testing.T, text string) (Config, error) {
	t.Helper()
	return Load(nil, writeFile(t, "p.yaml", text), nil)
}

// loadEnv loads an environment and nothing else.
func loadEnv(t *testing.T, environ ...string) (Config, error) {
	t.Helper()
	return Load(nil, writeFile(t, "p.yaml", ""), environ)
}

// mustEnv is loadEnv for an environment that is good.
func mustEnv(t *testing.T, environ ...string) Config {
	t.Helper()
	c, err := loadEnv(t, environ...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// lines are the faults of err, one each, with the folder, if any, taken out of paths.
func lines(t *testing.T, err error, folder string) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	text := err.Error()
	if folder != "" {
		text = strings.ReplaceAll(text, folder+"/", "")
	}
	return strings.Split(text, "\n")
}

// field reads the field of a path such as HTTP.Addr.
func field(c Config, path string) any {
	value := reflect.ValueOf(c)
	for name := range strings.SplitSeq(path, ".") {
		value = value.FieldByName(name)
	}
	return value.Interface()
}
