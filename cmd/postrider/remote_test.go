package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhereACallGoesAndWithWhichKey(t *testing.T) {
	t.Parallel()
	dev := t.TempDir()
	if err := (devState{URL: "http://127.0.0.1:8081", Key: "dev-key"}).write(dev); err != nil {
		t.Fatal(err)
	}
	stopped := t.TempDir()
	if err := (devState{Key: "dev-key"}).write(stopped); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		remote    remote
		base, key string // "": refused
	}{
		"dev alone":                  {remote{dir: dev}, "http://127.0.0.1:8081", "dev-key"},
		"dev's key and no URL":       {remote{dir: dev, key: "dev-key"}, "http://127.0.0.1:8081", "dev-key"},
		"dev's URL and no key":       {remote{dir: dev, url: "http://127.0.0.1:8081"}, "http://127.0.0.1:8081", "dev-key"},
		"another key":                {remote{dir: dev, key: "k"}, defaultURL, "k"},
		"dev's URL as it is printed": {remote{dir: dev, url: "http://127.0.0.1:8081/v1"}, "http://127.0.0.1:8081", "dev-key"},
		"a path and /v1/":            {remote{dir: dev, key: "k", url: "https://x.test/hooks/v1/"}, "https://x.test/hooks", "k"},
		"another URL":                {remote{dir: dev, url: "https://prod.test"}, "", ""},
		"another URL and dev's key":  {remote{dir: dev, url: "https://prod.test", key: "dev-key"}, "https://prod.test", "dev-key"},
		"a dev that is stopped":      {remote{dir: stopped}, "", ""},
		"no dev":                     {remote{dir: t.TempDir()}, "", ""},
		"the environment": {
			remote{dir: dev, w: world{environ: []string{"POSTRIDER_API_KEY=e", "POSTRIDER_URL=https://e.test/"}}}, "https://e.test", "e",
		},
		"a flag over the environment": {
			remote{dir: dev, key: "f", w: world{environ: []string{"POSTRIDER_API_KEY=e", "POSTRIDER_URL=https://e.test"}}}, "https://e.test", "f",
		},
	} {
		client, err := c.remote.client()
		switch {
		case c.key == "" && (err == nil || !strings.HasPrefix(err.Error(), "no API key: ")):
			t.Errorf("%s: %v, %v, want to be refused", name, client, err)
		case c.key == "" && strings.Contains(err.Error(), "none runs in "+c.remote.dir) != (c.remote.dir != dev):
			t.Errorf("%s: %v", name, err)
		case c.key == "":
		case err != nil || client.base != c.base || client.key != c.key:
			t.Errorf("%s: %+v, %v, want %s and %s", name, client, err, c.base, c.key)
		}
	}
}

func TestDevsStateIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := devState{URL: "http://127.0.0.1:8080", Key: newDevKey(), ReceiverPort: 4711}
	if err := want.write(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := readDevState(dir); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	path, err := keyFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	if again, err := keyFile(dir); err != nil || again != path {
		t.Errorf("%s, %v", again, err)
	}
	if after, _ := os.ReadFile(path); len(before) == 0 || string(after) != string(before) {
		t.Error("the key was made anew: what it sealed is lost")
	}
	for _, file := range []string{path, filepath.Join(dir, devStateFile)} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, devStateFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readDevState(dir); err == nil {
		t.Errorf("half a state is taken as %+v", got)
	}
}
