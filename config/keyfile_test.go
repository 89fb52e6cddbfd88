package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestKeyFile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		mode       os.FileMode
		want       string // the fault, or "" if the keys are A and B
	}{
		{"good", keyA + "\n" + keyB + "\n", 0o600, ""},
		{"readable by the group", keyA + "\n" + keyB, 0o440, ""},
		{"with comments", "# first\n\n  " + keyA + "\r\n# second\n" + keyB + "  \n\n", 0o400, ""},
		{"readable by all", keyA, 0o644, "is open to all users of the machine (mode 0644), want 0600 or 0640"},
		{"writable by all", keyA, 0o602, "is open to all users of the machine (mode 0602), want 0600 or 0640"},
		{"empty", "", 0o600, "holds no key, want one a line, base64 of exactly 32 bytes each (openssl rand -base64 32)"},
		{"comments alone", "# none\n", 0o600, "holds no key, want one a line, base64 of exactly 32 bytes each (openssl rand -base64 32)"},
		{"short key", keyA + "\n\nc2hvcnQ=\n", 0o600, "line 3 is not a key, want base64 of exactly 32 bytes (openssl rand -base64 32)"},
		{"two in a line", keyA + "," + keyB, 0o600, "line 1 is not a key, want base64 of exactly 32 bytes (openssl rand -base64 32)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := writeFile(t, "keys", test.text)
			if err := os.Chmod(path, test.mode); err != nil {
				t.Fatal(err)
			}
			c := mustEnv(t, "POSTRIDER_SECRETS_KEY_FILE="+path)
			if err := c.Validate(); err != nil {
				t.Errorf("a command without need of the keys minds: %v", err)
			}
			err := c.Validate(NeedSecrets)
			if test.want == "" {
				if err != nil || !reflect.DeepEqual(c.Secrets.Keys, [][32]byte{fill('A'), fill('B')}) {
					t.Errorf("%v, %d keys", err, len(c.Secrets.Keys))
				}
				return
			}
			want := []string{`secrets.key_file: "keys" ` + test.want + " (from POSTRIDER_SECRETS_KEY_FILE)"}
			if got := lines(t, err, filepath.Dir(path)); !slices.Equal(got, want) {
				t.Errorf("\n got %q\nwant %q", got, want)
			}
		})
	}
}

func TestKeyFileThatIsNone(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		folder + "/gone": `secrets.key_file: "gone" cannot be read: no such file or directory (from --secrets.key_file)`,
		folder + "/.":    `secrets.key_file: "." is not a regular file (from --secrets.key_file)`,
	} {
		c, err := Load(flagSet(t, "--secrets.key_file", path), writeFile(t, "p.yaml", ""), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := lines(t, c.Validate(NeedSecrets), folder); !slices.Equal(got, []string{want}) {
			t.Errorf("\n got %q\nwant %q", got, want)
		}
	}
}

// The same key twice is a slip in the file too.
func TestKeyFileWithOneKeyTwice(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "keys", strings.Repeat(keyA+"\n", 2))
	c := mustEnv(t, "POSTRIDER_SECRETS_KEY_FILE="+path)
	want := []string{"secrets.keys: item 2 is item 1 again, want distinct keys (from keys)"}
	if got := lines(t, c.Validate(), filepath.Dir(path)); !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}
