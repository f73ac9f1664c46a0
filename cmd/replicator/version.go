package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// version is set by the build of a release (-ldflags "-X main.version=…").
var version string

// release is the version of the program. go install knows it from the module; a build of a checkout has none.
func release() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Sum != "" {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return "0.1.0-dev"
}

// commit is set by the build of a release; other builds know it from the checkout.
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

// versionText is the version as it is printed: with the commit, if the build knows it.
func versionText() string {
	at := revision()
	if at != "" {
		at = " " + at
	}
	return fmt.Sprintf("replicator %s%s %s %s/%s", release(), at, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// revision is the commit that the program was built from, shortened; "" if the build doesn't know it.
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
