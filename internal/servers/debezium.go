package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// DebeziumVersion is the release of Debezium Server that bench compares the program with.
const DebeziumVersion = "3.0.8.Final"

const (
	// the SHA-256 sum of the archive; the repository publishes none
	debeziumSum = "834c95d52e7880e638f8faac41fff3ee55d74045bd8095a8de49d1cc4856afc4"
	// the Java release that Debezium Server is compiled for
	debeziumJava = 21
)

// Debezium prepares a command that runs Debezium Server, which reads dir/config/application.properties. The first call
// on a machine fetches Debezium Server from a Maven repository. The caller must end the command after starting it.
func Debezium(ctx context.Context, dir string, say func(string)) (*exec.Cmd, error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	java := installedJava(debeziumJava, 0)
	if java == "" {
		return nil, fmt.Errorf(
			"servers: Debezium Server needs Java %d or newer. Install it, or set JAVA_HOME to its home",
			debeziumJava)
	}
	root, err := once(ctx, cache, "debezium-server", say, func(dir string, log *os.File) error {
		say("fetching Debezium Server from a Maven repository, 548 MB: this takes minutes, once")
		return fetchDebezium(ctx, cache, dir, log, say)
	})
	if err != nil {
		return nil, err
	}
	class := fmt.Sprintf("%s/debezium-server-dist-%s-runner.jar:%s/config:%s/config/lib:%s/lib/*", root, DebeziumVersion,
		dir, root, root)
	cmd := exec.CommandContext(ctx, filepath.Join(java, "bin", "java"), "-Xmx1g", "-cp", class, "io.debezium.server.Main")
	cmd.Dir = dir
	return cmd, nil
}

func fetchDebezium(ctx context.Context, cache, dir string, log *os.File, say func(string)) error {
	artifact := mavenArtifact{group: "io.debezium", name: "debezium-server-dist", version: DebeziumVersion,
		kind: "tar.gz", sum: debeziumSum}
	archive, err := artifact.fetch(ctx, cache, dir, log, say)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "tar", "-xzf", archive, "-C", dir, "--strip-components=1", "--no-same-owner")
	cmd.Stdout, cmd.Stderr = log, log
	if err := errors.Join(runTied(cmd), os.Remove(archive)); err != nil {
		return fmt.Errorf("servers: unpacking Debezium Server: %w", err)
	}
	return nil
}
