package lint

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

// GoReleaser's own reader takes no key that it has not. What the files and flags in it mean, it would find out at a release.
func TestReleaseIsWellFormedAndNamesWhatThereIs(t *testing.T) {
	t.Parallel()
	p, err := config.LoadReader(bytes.NewReader(read(t, ".goreleaser.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.LoadReader(strings.NewReader("version: 2\nbuild: []\n")); err == nil {
		t.Error("the reader takes anything")
	}
	there := func(pattern string) {
		if found, err := filepath.Glob(filepath.Join(root, pattern)); err != nil || len(found) == 0 {
			t.Errorf("%s is not there: %v", pattern, err)
		}
	}
	for _, f := range p.Archives[0].Files {
		there(f.Source)
	}
	for _, n := range p.NFPMs {
		units := 0
		for _, c := range n.Contents {
			if c.Source != "" {
				there(c.Source)
			}
			if strings.HasSuffix(c.Source, ".service") {
				units++
			}
		}
		if all, _ := filepath.Glob(filepath.Join(root, "deploy/systemd/*.service")); units != len(all) {
			t.Errorf("%d of %d units are in the packages", units, len(all))
		}
	}
	b := p.Builds[0]
	for _, flag := range []string{"-X main.version=", "-X main.commit=", "-X main.date="} {
		if !strings.Contains(strings.Join(b.Ldflags, " "), flag) || !bytes.Contains(read(t, "Dockerfile"), []byte(flag)) {
			t.Errorf("a build does not say %s", flag)
		}
	}
	if !slices.Contains(b.Env, "CGO_ENABLED=0") || !slices.Equal(b.Goos, []string{"linux", "darwin"}) || !slices.Equal(b.Goarch, []string{"amd64", "arm64"}) {
		t.Errorf("the build: %+v", b)
	}
	for _, d := range p.DockersV2 {
		there(d.Dockerfile)
		for name := range d.BuildArgs {
			if !bytes.Contains(read(t, "Dockerfile"), []byte("ARG "+name)) && !bytes.Contains(read(t, "Dockerfile"), []byte(" "+name+"=\"\"")) {
				t.Errorf("the Dockerfile has no argument %s", name)
			}
		}
	}
	if len(p.SBOMs) == 0 || len(p.Signs) == 0 || p.Checksum.NameTemplate == "" {
		t.Error("no SBOM, signature or checksums")
	}
}
