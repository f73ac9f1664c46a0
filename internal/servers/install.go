package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// installation is a directory in the cache with the programs of a kind. It contains bin/NAME for each program, the
// version, and usr with the programs' files. If the kind has a data directory to copy, it contains that, too.
type installation struct {
	kind    Kind
	spec    *spec
	root    string
	version string
}

func (in *installation) program(name string) string { return filepath.Join(in.root, "bin", name) }

func (in *installation) server() string {
	for _, name := range in.spec.server {
		if _, err := os.Stat(in.program(name)); err == nil {
			return in.program(name)
		}
	}
	return in.program(in.spec.server[0])
}

// template returns the path of the data directory that new servers copy.
func (in *installation) template() string { return filepath.Join(in.root, "data") }

func (in *installation) firstDir(names ...string) string {
	for _, name := range names {
		if dir := filepath.Join(in.root, name); isDir(dir) {
			return dir
		}
	}
	return ""
}

// failed remembers which fetches failed, for the life of the process. So a test binary without a network tries only
// once, and not once for each test.
var failed struct {
	sync.Mutex
	kinds map[Kind]error
}

func find(ctx context.Context, kind Kind, progress func(string)) (*installation, error) {
	sp, ok := specs[kind]
	if !ok {
		_, err := ParseKind(string(kind))
		return nil, err
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	say := func(text string) { progress(fmt.Sprintf("%s: %s", kind, text)) }
	missing := &MissingError{Kind: kind, Looked: []string{"the cache " + cache + " does not contain it"}}

	failed.Lock()
	fetchErr := failed.kinds[kind]
	failed.Unlock()
	if fetchErr == nil {
		var root string
		root, fetchErr = once(ctx, cache, string(kind), say, func(dir string, log *os.File) error {
			in := &installation{kind: kind, spec: sp, root: dir}
			if sp.fetch != nil {
				return sp.fetch(ctx, in, cache, log, say)
			}
			return fetchDebian(ctx, in, cache, log, say)
		})
		if fetchErr == nil {
			return opened(kind, root)
		}
		if ctx.Err() != nil {
			return nil, fetchErr
		}
		failed.Lock()
		if failed.kinds == nil {
			failed.kinds = map[Kind]error{}
		}
		failed.kinds[kind] = fetchErr
		failed.Unlock()
	}
	missing.cause = fetchErr
	if sp.fetch != nil {
		missing.Looked = append(missing.Looked, "it could not be fetched: "+trimmed(fetchErr))
		return nil, missing
	}
	missing.Looked = append(missing.Looked, fmt.Sprintf("it could not be fetched from Debian %s: %s",
		sp.suite, trimmed(fetchErr)))

	path, v, reason := inPath(kind)
	if path == "" {
		missing.Looked = append(missing.Looked, reason)
		return nil, missing
	}
	root, err := once(ctx, cache, fmt.Sprintf("%s-path-%s", kind, v), say, func(dir string, log *os.File) error {
		return adopt(ctx, kind, path, dir, log, say)
	})
	if err != nil {
		return nil, fmt.Errorf("servers: %s could not be prepared from %s: %s", kind, path, trimmed(err))
	}
	return opened(kind, root)
}

// trimmed returns an error's text without this package's prefix, for use within another error of this package.
func trimmed(err error) string { return strings.ReplaceAll(err.Error(), "servers: ", "") }

func opened(kind Kind, root string) (*installation, error) {
	in := &installation{kind: kind, spec: specs[kind], root: root}
	text, err := os.ReadFile(filepath.Join(root, "version"))
	if err != nil {
		return nil, fmt.Errorf("servers: the cache is damaged: %w. Remove %s, so that it is fetched again", err, root)
	}
	in.version = strings.TrimSpace(string(text))
	return in, nil
}

// complete does the last steps of every installation: it records the programs' version, and creates a data directory.
// Each new server gets a copy of this directory, unless its options need another.
func complete(ctx context.Context, in *installation, log *os.File, say func(string)) error {
	v, _, err := serverVersion(in.server())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(in.root, "version"), []byte(v.String()+"\n"), 0o644); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	initialise := in.spec.initialise
	if initialise == nil {
		return nil
	}
	say("creating a data directory to copy")
	return initialise(ctx, in, in.template(), nil, log.Name())
}

func serverVersion(program string) (v version, mariadb bool, err error) {
	out, err := exec.Command(program, "--version").CombinedOutput()
	if err != nil {
		return v, false, fmt.Errorf("servers: %s --version: %w: %s", program, err, strings.TrimSpace(string(out)))
	}
	v, ok := parseVersion(strings.ReplaceAll(string(out), program, "")) // the program's path may contain numbers
	if !ok {
		return v, false, fmt.Errorf("servers: %s --version prints no release: %s",
			program, strings.TrimSpace(string(out)))
	}
	return v, strings.Contains(string(out), "MariaDB"), nil
}

// inPath finds a server of the kind that is installed on the machine. If none fits, path is "" and reason explains why.
func inPath(kind Kind) (path string, v version, reason string) {
	sp := specs[kind]
	var reasons []string
	for _, name := range sp.server {
		found, err := lookPath(name)
		if err != nil {
			reasons = append(reasons, "no "+name+" in PATH")
			continue
		}
		v, mariadb, err := serverVersion(found)
		switch {
		case err != nil:
			reasons = append(reasons, trimmed(err))
		case mariadb != sp.mariadb:
			reasons = append(reasons, fmt.Sprintf("%s is from another vendor (release %s)", found, v))
		case v.less(sp.min) || !v.less(sp.below):
			reasons = append(reasons, fmt.Sprintf("%s has release %s", found, v))
		default:
			return found, v, ""
		}
	}
	return "", v, strings.Join(reasons, "; ")
}

// lookPath is exec.LookPath that also searches the directories of servers, which a normal user's PATH lacks.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return filepath.Abs(path)
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/libexec"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", err
}

// adopt makes an installation that uses the machine's own server at path.
func adopt(ctx context.Context, kind Kind, path, dir string, log *os.File, say func(string)) error {
	sp := specs[kind]
	say("using " + path)
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	base := filepath.Dir(filepath.Dir(real)) // if real is /usr/sbin/mysqld, base is /usr
	err = errors.Join(os.Symlink(base, filepath.Join(dir, "usr")), os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	// Write scripts, not links: the programs find their files by the path with which they are called.
	write := func(name, target string) error {
		text := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", strings.ReplaceAll(target, "'", `'\''`))
		return os.WriteFile(filepath.Join(dir, "bin", name), []byte(text), 0o755)
	}
	if err := write(sp.server[0], path); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	for _, name := range sp.programs {
		if target, err := lookPath(name); err == nil { // clients are optional: `Program` reports one that is missing
			if err := write(name, target); err != nil {
				return fmt.Errorf("servers: %w", err)
			}
		}
	}
	return complete(ctx, &installation{kind: kind, spec: sp, root: dir}, log, say)
}

// Fetch makes sure that servers of the kind can be started, without starting one, and returns their version. progress
// may be nil.
func Fetch(ctx context.Context, kind Kind, progress func(string)) (version string, err error) {
	in, err := find(ctx, kind, orDiscard(progress))
	if err != nil {
		return "", err
	}
	return in.version, nil
}

// Program returns the path of a program that comes with a kind: a client ("mysql", "mysqlbinlog", "redis-cli") or the
// server itself. For MariaDB, it also accepts the names of MySQL's clients. It fetches the kind if needed.
func Program(kind Kind, name string) (string, error) {
	in, err := find(context.Background(), kind, orDiscard(nil))
	if err != nil {
		return "", err
	}
	if alias := specs[kind].aliases[name]; alias != "" {
		name = alias
	}
	path := in.program(name)
	if _, err := os.Stat(path); err != nil {
		if clients := specs[kind].clients; clients != "" {
			return Program(clients, name)
		}
		return "", fmt.Errorf("servers: %s comes without a program %s. Its programs are %s", kind, name,
			strings.Join(append(specs[kind].server[:1:1], specs[kind].programs...), ", "))
	}
	return path, nil
}

func orDiscard(progress func(string)) func(string) {
	if progress == nil {
		return func(string) {}
	}
	return progress
}
