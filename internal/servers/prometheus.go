package servers

import (
	"context"
	"os/exec"
	"path/filepath"
)

var prometheus = &spec{suite: "bookworm", packages: []string{"prometheus"}, size: "50 MB"}

// Prometheus prepares a command that runs "prometheus", or "promtool", which checks Prometheus's files. The first call
// on a machine fetches both from Debian.
func Prometheus(ctx context.Context, program string, args ...string) (*exec.Cmd, error) {
	root, err := tool(ctx, "prometheus", prometheus, func(dir string) error {
		return wrap(dir, []string{"prometheus", "promtool"})
	})
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, filepath.Join(root, "bin", program), args...), nil
}
