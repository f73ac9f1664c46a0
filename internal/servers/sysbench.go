package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

var sysbench = &spec{suite: "bookworm", packages: []string{"sysbench"}, size: "20 MB"}

// Sysbench prepares a command that runs sysbench against a server. sysbench writes independently of replicator. The
// parameter script is the name of one of sysbench's scripts, such as "oltp_write_only". The first call on a machine
// fetches sysbench from Debian.
func Sysbench(ctx context.Context, s *Server, database, script string, args ...string) (*exec.Cmd, error) {
	root, err := tool(ctx, "sysbench", sysbench, func(dir string) error { return wrap(dir, []string{"sysbench"}) })
	if err != nil {
		return nil, err
	}
	scripts := filepath.Join(root, "usr", "share", "sysbench")
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "sysbench"), append([]string{
		filepath.Join(scripts,
			script+".lua"), "--db-driver=mysql", "--mysql-host=127.0.0.1", fmt.Sprintf("--mysql-port=%d", s.Port),
		"--mysql-user=root", "--mysql-db=" + database}, args...)...)
	plugins, err := filepath.Glob(filepath.Join(root, "usr", "lib", "*", "libmariadb3", "plugin"))
	if err != nil || len(plugins) == 0 {
		return nil, fmt.Errorf("servers: sysbench: found no client plugins in %s", root)
	}
	cmd.Env = append(os.Environ(), "LUA_PATH="+filepath.Join(scripts, "?.lua"), "MARIADB_PLUGIN_DIR="+plugins[0])
	return cmd, nil
}
