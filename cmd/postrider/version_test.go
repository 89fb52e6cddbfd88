package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	var v build
	if err := json.Unmarshal([]byte(must(t, nil, "version", "--json")), &v); err != nil || v.Version == "" || v.Go == "" {
		t.Errorf("%v, %v", v, err)
	}
	if out := must(t, nil, "version"); !strings.HasPrefix(out, "postrider "+v.Version+" ") {
		t.Errorf("%q", out)
	}
	if flag, out := must(t, nil, "--version"), must(t, nil, "version"); flag != out {
		t.Errorf("--version says %q, version %q", flag, out)
	}
	if got := userAgent(); got != "Postrider/"+v.Version {
		t.Errorf("User-Agent %s", got)
	}
}

func TestABuildIsDescribed(t *testing.T) {
	t.Parallel()
	const sum, other = "0123456789abcdef0123456789abcdef01234567", "fedcba9876543210fedcba9876543210fedcba98"
	found := func(version string, settings ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{Main: debug.Module{Version: version}}
		for i := 0; i < len(settings); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return info
	}
	inGit := found("(devel)", "vcs.revision", sum, "vcs.time", "2026-11-30T09:00:00Z", "vcs.modified", "true")
	platform := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
	for name, c := range map[string]struct {
		said           build
		info           *debug.BuildInfo
		line, revision string
	}{
		"nothing is known":       {build{}, found(""), "postrider dev (" + platform, "unknown"},
		"go build in a clone":    {build{}, inGit, "postrider dev-0123456789ab (commit 0123456789ab of 2026-11-30T09:00:00Z, with changes, " + platform, sum + "-dirty"},
		"make build":             {build{Version: "v1.2.3-4-g0123456-dirty"}, inGit, "postrider 1.2.3-4-g0123456-dirty (commit 0123456789ab of 2026-11-30T09:00:00Z, with changes, " + platform, sum + "-dirty"},
		"go install of a module": {build{}, found("v1.2.3"), "postrider 1.2.3 (" + platform, "unknown"},
		"an image": {
			build{Version: "v1.2.3", Commit: sum, Date: "2026-11-30T10:00:00+01:00"},
			found("(devel)"),
			"postrider 1.2.3 (commit 0123456789ab of 2026-11-30T09:00:00Z, " + platform, sum,
		},
		"what is said goes first": {build{Version: "1.2.3", Commit: other + "-dirty"}, inGit, "postrider 1.2.3 (commit fedcba987654, with changes, " + platform, other + "-dirty"},
		"no number":               {build{Version: "vienna"}, found(""), "postrider vienna (" + platform, "unknown"},
	} {
		b := describeBuild(c.said, c.info)
		if b.String() != c.line || b.revision() != c.revision {
			t.Errorf("%s: %q, revision %s, want %q, %s", name, b, b.revision(), c.line, c.revision)
		}
	}
}

// The flags by which all builds say what they are made of have to name variables that there are: the linker is silent about others.
func TestBuildsCanSayWhatTheyAreMadeOf(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "postrider")
	flags := "-X main.version=v9.8.7 -X main.commit=0123456789abcdef-dirty -X main.date=2026-11-30T10:00:00+01:00"
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", flags, "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program, "version", "--json").Output()
	var got build
	if err != nil || json.Unmarshal(out, &got) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := build{Version: "9.8.7", Commit: "0123456789abcdef", Date: "2026-11-30T09:00:00Z", Dirty: true, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
