package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the build: -ldflags "-X main.version=1.2.3".
var version = ""

// buildVersion is the version that the build names, else the module's or the commit that Go put into the binary.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "dev-" + s.Value[:12]
		}
	}
	return "dev"
}

// userAgent is what receivers and our own API are told.
func userAgent() string { return "Postrider/" + buildVersion() }

func versionLine() string {
	return fmt.Sprintf("postrider %s (%s %s/%s)", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newVersion(w world) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printJSON(w.stdout, map[string]string{
					"version": buildVersion(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				})
			}
			fmt.Fprintln(w.stdout, versionLine())
			return nil
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
