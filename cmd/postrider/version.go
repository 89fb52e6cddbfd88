package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// What a build says of itself, by -ldflags "-X main.version=1.2.3 …". A build within the repository need not: Go puts the
// commit into the binary by itself. One without .git, such as the image's, has to.
var (
	version = ""
	commit  = "" // in full; "-dirty" behind it says that files were changed since
	date    = "" // when the commit was made, RFC 3339
)

// dirtyMark is how git describe says that files were changed since the commit.
const dirtyMark = "-dirty"

// build is what the program was made of.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"` // "": not known
	Date    string `json:"date"`   // of the commit, RFC 3339 in UTC; "": not known
	Dirty   bool   `json:"dirty"`  // files were changed since the commit
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// thisBuild is what the build said, and where it said nothing, what Go put into the binary.
func thisBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return describeBuild(build{Version: version, Commit: commit, Date: date}, info)
}

func describeBuild(said build, info *debug.BuildInfo) build {
	vcs := map[string]string{}
	for _, s := range info.Settings {
		vcs[s.Key] = s.Value
	}
	b := build{Commit: said.Commit, Date: said.Date, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if b.Commit == "" { // a commit that was said is not mixed with one that was found
		b.Commit, b.Date, b.Dirty = vcs["vcs.revision"], vcs["vcs.time"], vcs["vcs.modified"] == "true"
	}
	if clean, marked := strings.CutSuffix(b.Commit, dirtyMark); marked {
		b.Commit, b.Dirty = clean, true
	}
	if at, err := time.Parse(time.RFC3339, b.Date); err == nil {
		b.Date = at.UTC().Format(time.RFC3339)
	}
	b.Version = cmp.Or(said.Version, strings.TrimSuffix(info.Main.Version, "(devel)"))
	if b.Version == "" && len(b.Commit) >= 12 {
		b.Version = "dev-" + b.Commit[:12]
	}
	// A tag is v1.2.3, the version that it names 1.2.3.
	if rest, tagged := strings.CutPrefix(b.Version, "v"); tagged && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		b.Version = rest
	}
	b.Version = cmp.Or(b.Version, "dev")
	return b
}

// revision is the commit for a label of metrics.
func (b build) revision() string {
	switch {
	case b.Commit == "":
		return "unknown"
	case b.Dirty:
		return b.Commit + dirtyMark
	}
	return b.Commit
}

// String is one line: postrider 1.2.3 (commit 0123456789ab of 2026-11-30T09:00:00Z, go1.26.0, linux/amd64).
func (b build) String() string {
	var facts []string
	if b.Commit != "" {
		fact := "commit " + b.Commit[:min(12, len(b.Commit))]
		if b.Date != "" {
			fact += " of " + b.Date
		}
		facts = append(facts, fact)
	}
	if b.Dirty {
		facts = append(facts, "with changes")
	}
	facts = append(facts, b.Go, b.OS+"/"+b.Arch)
	return fmt.Sprintf("postrider %s (%s)", b.Version, strings.Join(facts, ", "))
}

// buildVersion is the version that the build names, else the module's or the commit that Go put into the binary.
func buildVersion() string { return thisBuild().Version }

// userAgent is what receivers and our own API are told.
func userAgent() string { return "Postrider/" + buildVersion() }

func newVersion(w world) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version, and the commit that it was built of", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printJSON(w.stdout, thisBuild())
			}
			fmt.Fprintln(w.stdout, thisBuild())
			return nil
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
