package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// version is set when a release is built (-ldflags "-X main.version=…").
var version string

// release returns the program's version. After `go install`, that is the module's version.
func release() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Sum != "" {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return "0.1.0-dev"
}

// commit is the hash of the commit, set when a release is built. Other builds take the hash from the checkout.
var commit string

func versionCommand(*options) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}

// versionText returns the printed version, with the commit if the build knows it.
func versionText() string {
	at := revision()
	if at != "" {
		at = " " + at
	}
	return fmt.Sprintf("replicator %s%s %s %s/%s", release(), at, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// revision returns the shortened commit that the program was built from; "" if the build doesn't know it.
func revision() string {
	if commit != "" {
		return commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	return ""
}
