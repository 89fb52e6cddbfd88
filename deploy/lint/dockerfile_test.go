package lint

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
	"github.com/opencontainers/go-digest"
)

// offline stands in for the registry: an image has nothing of its own. What it really brings, only a build can tell.
type offline struct{}

func (offline) ResolveImageConfig(_ context.Context, ref string, _ sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	config, err := json.Marshal(dockerspec.DockerOCIImage{})
	return ref, digest.FromBytes(config), config, err
}

// What `docker build --check` finds, BuildKit's linter finds here: the image cannot be built without a registry.
func TestDockerfileIsCleanAndMakesTheImageWeSay(t *testing.T) {
	t.Parallel()
	text := read(t, "Dockerfile")
	for _, binary := range []string{"build", "prebuilt"} {
		opt := dockerfile2llb.ConvertOpt{
			MetaResolver: offline{}, AllStages: true,
			Warn: func(rule, _, _, detail string, at []parser.Range) {
				t.Errorf("%s: line %d: %s: %s", binary, at[0].Start.Line, rule, detail)
			},
		}
		opt.BuildArgs = map[string]string{"BINARY": binary, "VERSION": "1.2.3", "COMMIT": "0123abc", "DATE": "2026-11-30T09:00:00Z"}
		made, err := dockerfile2llb.Dockerfile2LLB(t.Context(), text, opt)
		if err != nil {
			t.Fatalf("%s: %v", binary, err)
		}
		image := made.Image.Config
		own := "/usr/local/bin/postrider"
		for what, ok := range map[string]bool{
			"a user by number who is not root": image.User == "65532:65532",
			"the program":                      slices.Equal(image.Entrypoint, []string{own}) && slices.Equal(image.Cmd, []string{"serve"}),
			"a health check of its own":        image.Healthcheck != nil && slices.Equal(image.Healthcheck.Test, []string{"CMD", own, "health"}),
			"nowhere to write":                 len(image.Volumes) == 0,
			"its version":                      image.Labels["org.opencontainers.image.version"] == "1.2.3",
			"its commit":                       image.Labels["org.opencontainers.image.revision"] == "0123abc",
			"the commit's date":                image.Labels["org.opencontainers.image.created"] == "2026-11-30T09:00:00Z",
		} {
			if !ok {
				t.Errorf("%s: it lacks %s: %+v", binary, what, image)
			}
		}
		environ := map[string]string{"POSTRIDER_DATABASE_URL": "postgres://u@h/d", "POSTRIDER_SECRETS_KEYS": testKey}
		for _, entry := range image.Env {
			if name, value, _ := strings.Cut(entry, "="); name != "PATH" {
				environ[name] = value
			}
		}
		mustStart(t, image.Cmd, environ)
		mustStart(t, image.Healthcheck.Test[2:], nil)
	}
}

// The context that .dockerignore leaves has to be enough to build of, and hold no more. The command is the Dockerfile's own.
func TestTheImagesContextIsEnough(t *testing.T) {
	t.Parallel()
	patterns, err := ignorefile.ReadAll(bytes.NewReader(read(t, ".dockerignore")))
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := os.DirFS(root)
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || entry.Name() == "node_modules"):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		if out, err := ignored.MatchesOrParentMatches(name); err != nil || out {
			return err
		}
		for _, never := range []string{".env", "_test.go", ".key", ".md"} {
			if strings.HasSuffix(name, never) && name != "internal/api/docs/README.md" { // which says where the files beside it are from
				t.Errorf("%s goes into the context", name)
			}
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name), text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?s)(CGO_ENABLED=0 .*?) -o /postrider (\S+)\n`).FindSubmatch(read(t, "Dockerfile"))
	if command == nil {
		t.Fatal("the Dockerfile builds in another way")
	}
	build := exec.CommandContext(t.Context(), "sh", "-euc", string(command[1])+" -o postrider "+string(command[2]))
	build.Dir = dir
	build.Env = append(os.Environ(), "TARGETOS=", "TARGETARCH=", "VERSION=v1.2.3", "COMMIT=0123456789abcdef", "DATE=2026-11-30T10:00:00+01:00", "GOFLAGS=-mod=mod")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "postrider"), "version").Output()
	if err != nil || !strings.HasPrefix(string(out), "postrider 1.2.3 (commit 0123456789ab of 2026-11-30T09:00:00Z, go") {
		t.Errorf("%v: %s", err, out)
	}
}
