package servers

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const debianKeys = "/usr/share/keyrings/debian-archive-keyring.gpg"

func fetchDebian(ctx context.Context, in *installation, cache string, log *os.File, say func(string)) error {
	sp, dir := in.spec, in.root
	if err := fetchPackages(ctx, cache, sp, dir, log, say); err != nil {
		return err
	}
	if err := removeUseless(dir); err != nil {
		return err
	}
	if err := wrap(dir, append(slices.Clone(sp.server[:1]), sp.programs...)); err != nil {
		return err
	}
	return complete(ctx, in, log, say)
}

func fetchPackages(ctx context.Context, cache string, sp *spec, dir string, log *os.File, say func(string)) error {
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("servers: this machine has no %s", tool)
		}
	}
	if _, err := os.Stat(debianKeys); err != nil {
		return fmt.Errorf("servers: no Debian keys. Install the package debian-archive-keyring: %w", err)
	}
	main, security, err := debianMirror(ctx)
	if err != nil {
		return err
	}
	say(fmt.Sprintf("fetching it from Debian %s, about %s: this takes 20 to 60 seconds, once", sp.suite, sp.size))
	apt := &privateApt{dir: filepath.Join(cache, "apt-"+sp.suite), log: log}
	debs := filepath.Join(dir, "debs")
	if err := os.Mkdir(debs, 0o755); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	if err := apt.download(ctx, sp, main, security, debs); err != nil {
		return err
	}
	return unpack(ctx, debs, dir, log, say)
}

var releaseURI = regexp.MustCompile(`(?m)^'(.*)/dists/([^']*)/InRelease'`)

// debianMirror returns a mirror with Debian's suites, and a mirror with security updates, which may be "". They come
// from mirrorVariable, or else from this machine's apt sources.
func debianMirror(ctx context.Context) (main, security string, err error) {
	if m := strings.TrimRight(os.Getenv(mirrorVariable), "/"); m != "" {
		return m, "", nil
	}
	system := osRelease()
	if system["ID"] != "debian" {
		return "", "", fmt.Errorf("servers: this machine is %q, so its mirrors are not Debian's, and %s is not set",
			system["ID"], mirrorVariable)
	}
	// With an empty list directory, apt prints every file that it would fetch, whatever the format of its sources.
	out, err := exec.CommandContext(ctx, "apt-get", "-o", "Dir::State::lists=/nonexistent/", "update",
		"--print-uris").Output()
	if err != nil {
		return "", "", fmt.Errorf("servers: apt-get update --print-uris: %w", err)
	}
	main, security = mirrorsIn(string(out), system["VERSION_CODENAME"])
	if main == "" {
		return "", "", fmt.Errorf("servers: this machine's apt sources contain no Debian mirror. Add one, or set %s",
			mirrorVariable)
	}
	return main, security, nil
}

// mirrorsIn finds the mirrors in the output of apt-get update --print-uris. own is the machine's own suite.
func mirrorsIn(uris, own string) (main, security string) {
	for _, m := range releaseURI.FindAllStringSubmatch(uris, -1) {
		switch mirror, suite := m[1], m[2]; {
		case strings.HasSuffix(suite, "-security"):
			if security == "" {
				security = mirror
			}
		case suite == own || slices.Contains([]string{"sid", "unstable", "testing", "stable"}, suite):
			if main == "" {
				main = mirror
			}
		}
	}
	return main, security
}

func osRelease() map[string]string {
	out := map[string]string{}
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return out // not Linux: without an ID, callers see that it is not Debian
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			out[name] = strings.Trim(value, `"'`)
		}
	}
	return out
}

// privateApt is an apt with its own sources, lists and empty package database in dir. It neither reads nor writes the
// apt state of the machine.
type privateApt struct {
	dir string
	log *os.File
}

func (a *privateApt) download(ctx context.Context, sp *spec, main, security, debs string) error {
	if err := os.MkdirAll(filepath.Join(a.dir, "lists", "partial"), 0o755); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	// Lock the directory with the lists of a Debian suite, because several kinds of server use the same lists.
	unlock, err := lockFile(ctx, filepath.Join(a.dir, "lock"), nil)
	if err != nil {
		return err
	}
	defer unlock()
	if err := a.configure(sp.suite, main, security); err != nil {
		return err
	}
	if err := a.run(ctx, a.log, "", "update"); err != nil {
		return err
	}
	// The plan lists the packages that apt would install on a machine without any.
	var plan bytes.Buffer
	if err := a.run(ctx, &plan, "", append([]string{"-s", "--no-install-recommends", "install"},
		sp.packages...)...); err != nil {
		return err
	}
	wanted := neededPackages(&plan, sp.packages)
	return a.run(ctx, a.log, debs, append([]string{"download"}, wanted...)...)
}

// configure writes apt's configuration and sources. apt reads a configuration given with -c after the machine's own. So
// this configuration can clear the machine's hooks (container images have some).
func (a *privateApt) configure(suite, main, security string) error {
	who, err := user.Current()
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	sources := fmt.Sprintf("deb [signed-by=%s] %s %s main\n", debianKeys, main, suite)
	if suite != "sid" && security != "" {
		sources += fmt.Sprintf("deb [signed-by=%s] %s %s-security main\n", debianKeys, security, suite)
	}
	conf := fmt.Sprintf(`Dir::Etc::sourcelist "%[1]s/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "%[1]s";
Dir::State::status "%[1]s/status";
Dir::Cache "%[1]s";
APT::Sandbox::User "%[2]s";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
#clear APT::Default-Release;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
`, a.dir, who.Username)
	return errors.Join(
		os.MkdirAll(filepath.Join(a.dir, "archives", "partial"), 0o755),
		os.WriteFile(filepath.Join(a.dir, "status"), nil, 0o644),
		os.WriteFile(filepath.Join(a.dir, "sources.list"), []byte(sources), 0o644),
		os.WriteFile(filepath.Join(a.dir, "apt.conf"), []byte(conf), 0o644))
}

func (a *privateApt) run(ctx context.Context,
	out interface{ Write([]byte) (int, error) }, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-c", filepath.Join(a.dir, "apt.conf")}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, a.log
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if err := runTied(cmd); err != nil {
		return fmt.Errorf("servers: apt-get %s: %w", args[0], err)
	}
	return nil
}

// notNeeded matches libraries that only maintainer scripts, services and Perl programs need.
var notNeeded = regexp.MustCompile(`^lib(perl|gdbm|db5|dbi-|dbd-|c-gconv|c-l10n|pam-|systemd-shared|tirpc-common)|-perl$`)

// neededPackages reads what `apt-get -s install` prints, and returns the packages in own and the libraries they need.
func neededPackages(plan *bytes.Buffer, own []string) []string {
	var out []string
	for lines := bufio.NewScanner(plan); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 2 || f[0] != "Inst" {
			continue
		}
		name := f[1]
		if slices.Contains(own, name) || name == "zlib1g" || strings.HasPrefix(name, "lib") && !notNeeded.MatchString(name) {
			out = append(out, name)
		}
	}
	return out
}

// unpack unpacks every package in debs into dir and removes debs. dir/packages then lists the packages.
func unpack(ctx context.Context, debs, dir string, log *os.File, say func(string)) error {
	files, err := os.ReadDir(debs)
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	if len(files) == 0 {
		return errors.New("servers: apt-get downloaded no package")
	}
	say(fmt.Sprintf("unpacking %d packages", len(files)))
	var names strings.Builder
	for _, f := range files {
		cmd := exec.CommandContext(ctx, "dpkg-deb", "-x", filepath.Join(debs, f.Name()), dir)
		cmd.Stdout, cmd.Stderr = log, log
		if err := runTied(cmd); err != nil {
			return fmt.Errorf("servers: dpkg-deb -x %s: %w", f.Name(), err)
		}
		fmt.Fprintln(&names, f.Name())
	}
	err = errors.Join(os.WriteFile(filepath.Join(dir, "packages"), []byte(names.String()), 0o644), os.RemoveAll(debs))
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	return nil
}

func removeUseless(dir string) error {
	var err error
	for _, useless := range []string{"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/gdb",
		"usr/share/lintian", "etc", "var"} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, useless)))
	}
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	return nil
}

// wrapper runs a program with the C library and the other libraries of its packages. It passes the program's path as
// argv[0], because mysqld finds its own path in argv[0].
const wrapper = `#!/bin/sh
r=$(dirname "$(dirname "$(readlink -f "$0")")")
for d in "$r"/usr/lib/*-linux-gnu "$r"/lib/*-linux-gnu "$r"/usr/lib/mysql/private; do [ -d "$d" ] && l=${l:+$l:}$d; done
for d in "$r"/usr/lib/*-linux-gnu/ld-linux-* "$r"/lib/*-linux-gnu/ld-linux-*; do [ -x "$d" ] && ld=$d; done
p=$r/programs/${0##*/}
exec "$ld" --argv0 "$p" --library-path "$l" "$p" "$@"
`

// wrap moves the named programs to programs/NAME, and writes a wrapper for each to bin/NAME. It removes all other
// programs.
func wrap(dir string, names []string) error {
	for _, sub := range []string{"bin", "programs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return fmt.Errorf("servers: %w", err)
		}
	}
	for _, name := range names {
		var found string
		for _, sub := range []string{"usr/sbin", "usr/bin"} {
			if p, err := filepath.EvalSymlinks(filepath.Join(dir, sub, name)); err == nil {
				found = p
				break
			}
		}
		if found == "" {
			return fmt.Errorf("servers: the packages contain no program %s", name)
		}
		err := errors.Join(os.Link(found, filepath.Join(dir, "programs", name)),
			os.WriteFile(filepath.Join(dir, "bin", name), []byte(wrapper), 0o755))
		if err != nil {
			return fmt.Errorf("servers: %w", err)
		}
	}
	return errors.Join(os.RemoveAll(filepath.Join(dir, "usr/bin")), os.RemoveAll(filepath.Join(dir, "usr/sbin")))
}
